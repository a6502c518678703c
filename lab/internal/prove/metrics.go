package prove

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
)

// readings holds what is compared before and after a window, by the replica or the sign.
type readings struct {
	flips map[*local.Replica]int
	signs map[string]float64
}

// read reads how often each replica became unready, and the sums of the metrics that
// the service counts as signs.
func (s *subject) read(ctx context.Context) readings {
	r := readings{map[*local.Replica]int{}, map[string]float64{}}
	for _, one := range s.Replicas.Replicas() {
		r.flips[one] = one.Status().Flips
	}
	for sign, name := range s.kind.metrics {
		r.signs[sign], _, _ = s.metric(ctx, name) // a replica may be dead
	}
	return r
}

// since returns the most flips of a replica since before, and the signs. A replica that
// was restarted counts from 0 again, so there may have been more signs.
func (r readings) since(before readings) (flips int, signs map[string]int) {
	for one, n := range r.flips {
		flips = max(flips, n-before.flips[one])
	}
	signs = map[string]int{}
	for sign, n := range r.signs {
		signs[sign] = max(0, int(n-before.signs[sign]))
	}
	return flips, signs
}

// metric returns the sum of a metric of the service's replicas, and the largest value. An
// error is that of a replica which does not have it; the others count all the same.
func (s *subject) metric(ctx context.Context, name string) (sum, most float64, err error) {
	for _, one := range s.Replicas.Replicas() {
		value, failed := local.Metric(ctx, one.Status().Admin, name)
		sum, most, err = sum+value, max(most, value), errors.Join(err, failed)
	}
	return sum, most, err
}

const (
	goroutines     = "go_goroutines"
	residentMemory = "process_resident_memory_bytes"
	// leakSlack is how many more goroutines an idle replica may have after the run:
	// connections of the pool and the balancer that are still open.
	leakSlack = 25
	// growth is how much more memory a replica may have after the run than after the
	// window without faults.
	growth = 1.5
)

// baseline reads how many goroutines an idle replica of the service has, and demands
// the metrics that the checks need.
func (s *subject) baseline(ctx context.Context) (err error) {
	_, s.idle, err = s.metric(ctx, goroutines)
	for _, name := range s.kind.metrics {
		_, _, failed := s.metric(ctx, name)
		err = errors.Join(err, failed)
	}
	return err
}

// leaks waits until the service is idle and checks what was left behind.
func (s *subject) leaks(ctx context.Context) []Check {
	_, memory, _ := s.metric(ctx, residentMemory)
	s.http.CloseIdleConnections()
	_, now, _ := s.metric(ctx, goroutines)
	limit := s.idle + leakSlack
	for deadline := time.Now().Add(10 * time.Second); now > limit && time.Now().Before(deadline); {
		pause(ctx, 200*time.Millisecond)
		_, now, _ = s.metric(ctx, goroutines)
	}
	checks := []Check{check(s.Name+": goroutines", now <= limit, "%.0f before, %.0f after", s.idle, now)}
	if s.memory > 0 {
		const mebi = 1 << 20
		checks = append(checks, check(s.Name+": memory", memory <= growth*s.memory,
			"%.0f MiB without faults, %.0f MiB after all", s.memory/mebi, memory/mebi))
	}
	open, busy, err := s.connections(ctx)
	return append(checks, check(s.Name+": connections", err == nil && busy == 0, "%d open, %d not idle", open, busy))
}

// connections counts those of the service's role, and those of them at work.
func (s *subject) connections(ctx context.Context) (open, busy int, err error) {
	query := `SELECT count(*) AS n, count(*) FILTER (WHERE state NOT IN ('idle', 'disabled')) AS busy
		FROM pg_stat_activity WHERE usename = $1`
	if s.Maria != nil {
		query = `SELECT count(*) AS n, coalesce(sum(command <> 'Sleep'), 0) AS busy
			FROM information_schema.processlist WHERE user = ?`
	}
	var row struct{ N, Busy int }
	err = s.db.GetContext(ctx, &row, query, s.Role)
	return row.N, row.Busy, err
}
