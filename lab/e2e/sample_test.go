//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shares are samples of a figure between 0 and 1.
type shares []float64

func (s shares) String() string {
	if len(s) == 0 {
		return "not measured"
	}
	sorted := slices.Sorted(slices.Values(s))
	highest, median := sorted[len(sorted)-1], sorted[len(sorted)/2]
	all := make([]string, len(s))
	for i, share := range s {
		all[i] = fmt.Sprintf("%.0f", 100*share)
	}
	return fmt.Sprintf("%.0f %% at most, %.0f %% in the median (%s)", 100*highest, 100*median, strings.Join(all, ", "))
}

// sampler looks at figures again and again, until it is stopped.
type sampler struct {
	done   chan struct{}
	series chan []shares
	looks  atomic.Int32 // that did not fail
}

// sample begins. A look that fails is left out: there is the next one.
func sample(t *T, every time.Duration, look func(ctx context.Context) ([]float64, error)) *sampler {
	t.Helper()
	s := &sampler{done: make(chan struct{}), series: make(chan []shares, 1)}
	ctx := t.Context()
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		all := []shares{nil, nil}
		for {
			if figures, err := look(ctx); err == nil {
				s.looks.Add(1)
				for i, figure := range figures {
					all[i] = append(all[i], figure)
				}
			}
			select {
			case <-ticker.C:
			case <-s.done:
				s.series <- all
				return
			case <-ctx.Done(): // the chapter is over
				s.series <- all
				return
			}
		}
	}()
	return s
}

// more waits for so many samples.
func (s *sampler) more(t *T, n int32) {
	t.Helper()
	enough := s.looks.Load() + n
	eventually(t, time.Minute, func() error {
		if looks := s.looks.Load(); looks < enough {
			return fmt.Errorf("there are %d samples, want %d", looks, enough)
		}
		return nil
	})
}

// stop ends it, and returns the samples of each figure.
func (s *sampler) stop() []shares {
	close(s.done)
	return <-s.series
}

// cpu is what the namespace's pods use of the CPUs that there are, and what the busiest node uses of its own, by whomever.
func (a api) cpu(ctx context.Context) ([]float64, error) {
	nodes := new(core.NodeList)
	if err := a.get(ctx, "/api/v1/nodes", "", nodes); err != nil {
		return nil, err
	}
	var pods, used struct {
		Items []struct {
			Metadata   struct{ Name string }
			Usage      core.ResourceList
			Containers []struct{ Usage core.ResourceList }
		}
	}
	if err := a.get(ctx, "/apis/metrics.k8s.io/v1beta1/namespaces/"+namespace+"/pods", "", &pods); err != nil {
		return nil, err
	}
	if err := a.get(ctx, "/apis/metrics.k8s.io/v1beta1/nodes", "", &used); err != nil {
		return nil, err
	}
	var sum, there resource.Quantity
	share := 0.0
	for _, node := range nodes.Items {
		there.Add(*node.Status.Capacity.Cpu())
		for _, u := range used.Items {
			if u.Metadata.Name == node.Name {
				share = max(share, u.Usage.Cpu().AsApproximateFloat64()/node.Status.Capacity.Cpu().AsApproximateFloat64())
			}
		}
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Containers {
			sum.Add(*c.Usage.Cpu())
		}
	}
	return []float64{sum.AsApproximateFloat64() / there.AsApproximateFloat64(), share}, nil
}

// query asks the database, as its owner.
func (s *story) query(ctx context.Context, statement string) (string, error) {
	return kubectl(ctx, "exec", "postgres-0", "--", "psql", "--username=postgres", "--dbname=rowlock", "--no-align", "--tuples-only",
		"--command="+statement)
}

// connections is how many the services have open.
func (s *story) connections(ctx context.Context) ([]float64, error) {
	out, err := s.query(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename IN ('"+strings.Join(s.services, "','")+"')")
	if err != nil {
		return nil, err
	}
	n := 0.0
	_, err = fmt.Sscan(out, &n)
	return []float64{n}, err
}
