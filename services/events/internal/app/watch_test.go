package app

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
)

// queue has a backlog that is an error now and then.
type queue struct {
	event.Queue

	backlog event.Backlog
	err     error
}

func (q *queue) Backlog(context.Context) (event.Backlog, error) { return q.backlog, q.err }

// TestMeasure: the metrics show the backlog that was counted last, and NaN when that failed.
func TestMeasure(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	q := &queue{backlog: event.Backlog{Pending: 2, Distance: 3}}
	want := func(pending, distance float64) {
		t.Helper()
		for name, want := range map[string]float64{"events_pending": pending, "events_oldest_pending_distance": distance} {
			if got := apptest.Gathered(t, reg, name); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s is %g, want %g", name, got, want)
			}
		}
	}
	want(math.NaN(), math.NaN())
	if err := measure(t.Context(), q, m); err != nil {
		t.Error(err)
	}
	want(2, 3)
	q.err = errors.New("the database is away")
	if err := measure(t.Context(), q, m); !errors.Is(err, q.err) {
		t.Errorf("got %v, want %v", err, q.err)
	}
	want(math.NaN(), math.NaN())
}
