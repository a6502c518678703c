package prove

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
)

// readFlips returns how often each replica became unready by itself.
func (s *subject) readFlips() []int {
	all := s.Replicas.Replicas()
	flips := make([]int, len(all))
	for i, one := range all {
		flips[i] = one.Status().Flips
	}
	return flips
}

// metric returns the sum of a metric of the service's replicas, and the largest value. A
// replica that is dead has none.
func (s *subject) metric(ctx context.Context, name string) (sum, most float64) {
	for _, one := range s.Replicas.Replicas() {
		value, _ := local.Metric(ctx, one.Status().Admin, name)
		sum, most = sum+value, max(most, value)
	}
	return sum, most
}

const (
	goroutines     = "go_goroutines"
	inFlight       = `http_server_requests_in_flight{server="api"}`
	residentMemory = "process_resident_memory_bytes"
	// leakSlack is how many more goroutines an idle replica may have after the run:
	// connections of the pool and the balancer that are still open.
	leakSlack = 25
	// growth is how much more memory a replica may have after the run than after the
	// window without faults.
	growth = 1.5
	// afterAttack is how many bytes a replica may have right after window hostile: Go gives memory back within minutes.
	afterAttack = 256 << 20
)

// leaks waits until the service is idle and checks what was left behind.
func (s *subject) leaks(ctx context.Context) []Check {
	s.http.CloseIdleConnections()
	limit := s.idle + leakSlack
	query := `SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND state NOT IN ('idle', 'disabled')`
	if s.Maria != nil {
		query = `SELECT count(*) FROM information_schema.processlist WHERE user = ? AND command <> 'Sleep'`
	}
	var now, running, memory float64
	var busy int
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; fault.Wait(ctx, 200*time.Millisecond) {
		_, now = s.metric(ctx, goroutines)
		_, running = s.metric(ctx, inFlight)
		_, memory = s.metric(ctx, residentMemory)
		err = s.db.GetContext(ctx, &busy, query, s.Role)
		if now <= limit && running == 0 && busy == 0 || time.Now().After(deadline) {
			break
		}
	}
	checks := []Check{
		check(s.Name+": goroutines", 0 < now && now <= limit, "%.0f before, %.0f after", s.idle, now),
		check(s.Name+": in flight", running == 0, "%.0f requests in a replica", running),
	}
	if s.memory > 0 {
		const mebi = 1 << 20
		most := growth * s.memory
		if s.attacked != nil {
			most = max(most, afterAttack)
		}
		checks = append(checks, check(s.Name+": memory", 0 < memory && memory <= most,
			"%.0f MiB without faults, %.0f MiB after all", s.memory/mebi, memory/mebi))
	}
	return append(checks, check(s.Name+": connections", err == nil && busy == 0, "%d not idle", busy))
}
