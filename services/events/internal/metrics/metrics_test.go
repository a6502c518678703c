package metrics_test

import (
	"errors"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
)

// TestBacklog: the metrics show the backlog that was counted last, and NaN before, and when that failed.
func TestBacklog(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	want := func(pending, distance float64) {
		t.Helper()
		for name, want := range map[string]float64{"events_pending": pending, "events_oldest_pending_distance": distance} {
			if got := apptest.Gathered(t, reg, name); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s is %g, want %g", name, got, want)
			}
		}
	}
	want(math.NaN(), math.NaN())
	m.Backlog(event.Backlog{Pending: 2, Distance: 3}, nil)
	want(2, 3)
	m.Backlog(event.Backlog{}, errors.New("the database is away"))
	want(math.NaN(), math.NaN())
}
