//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// sampler reads a figure again and again until it is stopped.
type sampler struct {
	done    chan struct{}
	figures chan []float64
}

// sample starts a sampler. A reading that fails is left out.
func sample(t *T, every time.Duration, read func(ctx context.Context) (float64, error)) *sampler {
	t.Helper()
	s := &sampler{done: make(chan struct{}), figures: make(chan []float64, 1)}
	ctx := t.Context()
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		var all []float64
		defer func() { s.figures <- all }()
		for {
			if figure, err := read(ctx); err == nil {
				all = append(all, figure)
			}
			select {
			case <-ticker.C:
			case <-s.done:
				return
			case <-ctx.Done(): // the chapter is over
				return
			}
		}
	}()
	return s
}

// stop ends the sampler and returns its samples.
func (s *sampler) stop() []float64 {
	close(s.done)
	return <-s.figures
}

// cpu returns the share of the cluster's CPUs that the namespace's pods use.
func (s *story) cpu(ctx context.Context) (float64, error) {
	nodes := new(core.NodeList)
	if err := s.get(ctx, "/api/v1/nodes", "", nodes); err != nil {
		return 0, err
	}
	var pods struct {
		Items []struct {
			Containers []struct{ Usage core.ResourceList }
		}
	}
	if err := s.get(ctx, "/apis/metrics.k8s.io/v1beta1/namespaces/"+string(s.place)+"/pods", "", &pods); err != nil {
		return 0, err
	}
	var used, capacity resource.Quantity
	for _, node := range nodes.Items {
		capacity.Add(*node.Status.Capacity.Cpu())
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Containers {
			used.Add(*c.Usage.Cpu())
		}
	}
	return used.AsApproximateFloat64() / capacity.AsApproximateFloat64(), nil
}

// query runs a statement in the database as its owner.
func (s *story) query(ctx context.Context, statement string) (string, error) {
	return s.kubectl(ctx, "exec", "postgres-0", "--", "psql", "--username=postgres", "--dbname=rowlock", "--no-align",
		"--tuples-only", "--command="+statement)
}

// connections returns how many connections the services and their migrations have open.
func (s *story) connections(ctx context.Context) (n float64, err error) {
	out, err := s.query(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND usename <> current_user`)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(out, &n)
	return n, err
}

// pools returns how many connections the replicas' pools may open together, those of replicas that are ending included.
func (s *story) pools(ctx context.Context) (n float64, err error) {
	pods, err := s.podsOf(ctx, ours)
	for _, pod := range pods {
		for _, variable := range pod.Spec.Containers[0].Env {
			if variable.Name == "DB_MAX_OPEN_CONNS" {
				size, bad := strconv.Atoi(variable.Value)
				row, unknown := targets.Named(pod.Labels["app.kubernetes.io/name"])
				n, err = n+float64(size+row.SecondPool), errors.Join(err, bad, unknown)
			}
		}
	}
	return n, err
}
