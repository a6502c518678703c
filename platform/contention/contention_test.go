package contention_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// What can occur is there from the start, at zero, and nothing else is.
func TestWhatCanOccurBeginsAtZero(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := contention.New(reg, contention.Settings{
		Lock: "pot", Queued: true, Grouped: true,
		Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
	})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]int)
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
	}
	if series["rowlock_lock_wait_seconds"] != 3 || series["rowlock_lock_conflicts_total"] != 6 {
		t.Errorf("series: %v", series)
	}
	m.Waited(contention.InLane, 2*time.Second)
	m.Conflicts(contention.TakenOver, 3)
	for name, want := range map[string]float64{
		`rowlock_lock_wait_seconds_sum{lock="pot",where="lane"}`:                2,
		`rowlock_lock_wait_seconds_bucket{lock="pot",where="lane",le="1"}`:      0,
		`rowlock_lock_wait_seconds_bucket{lock="pot",where="lane",le="2.5"}`:    1,
		`rowlock_lock_conflicts_total{lock="pot",reason="taken_over"}`:          3,
		`rowlock_lock_conflicts_total{lock="pot",reason="held"}`:                0,
		`rowlock_lock_conflicts_total{lock="pot",reason="queue_timeout"}`:       0,
		`rowlock_lock_wait_seconds_count{lock="pot",where="process"}`:           0,
		`rowlock_lock_wait_seconds_bucket{lock="pot",where="database",le="10"}`: 0,
	} {
		if got := apptest.Gathered(t, reg, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

// Nil Metrics record nothing.
func TestNilMetrics(t *testing.T) {
	t.Parallel()
	var none *contention.Metrics
	none.Waited(contention.InDatabase, time.Second)
	none.Conflict(contention.Lost)
}
