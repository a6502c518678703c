//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"
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
