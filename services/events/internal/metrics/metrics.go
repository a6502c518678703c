// Package metrics counts what the events service does, for Prometheus.
package metrics

import (
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/worker"
)

// Metrics implements the observer of the worker.
type Metrics struct {
	pending  prometheus.Gauge
	distance prometheus.Gauge
	claimed  prometheus.Histogram
	worked   prometheus.Counter
	empty    prometheus.Counter
	failed   prometheus.Counter
}

var _ worker.Observer = (*Metrics)(nil)

// New registers the metrics.
func New(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "events_pending", Help: "Events that wait for a worker, looked at every 10 s; NaN when that failed.",
		}),
		distance: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "events_oldest_pending_distance", Help: "Events added since the oldest pending one, itself included; 0 when none is pending.",
		}),
		claimed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "events_claimed_batch_size", Help: "Events worked in one transaction.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}),
		worked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_worked_total", Help: "Events that this process has given a value.",
		}),
		empty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_empty_polls_total", Help: "Looks for pending events that found none.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_failed_batches_total", Help: "Batches that were rolled back, or whose outcome is unknown.",
		}),
	}
	m.BacklogUnknown()
	for _, c := range []prometheus.Collector{m.pending, m.distance, m.claimed, m.worked, m.empty, m.failed} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of events: %w", err)
		}
	}
	return m, nil
}

// Worked implements worker.Observer.
func (m *Metrics) Worked(n int) {
	m.claimed.Observe(float64(n))
	m.worked.Add(float64(n))
}

// FoundNothing implements worker.Observer.
func (m *Metrics) FoundNothing() { m.empty.Inc() }

// Failed implements worker.Observer.
func (m *Metrics) Failed() { m.failed.Inc() }

// Backlog sets what is pending.
func (m *Metrics) Backlog(b event.Backlog) {
	m.pending.Set(float64(b.Pending))
	m.distance.Set(float64(b.Distance))
}

// BacklogUnknown says that it could not be looked at.
func (m *Metrics) BacklogUnknown() {
	m.pending.Set(math.NaN())
	m.distance.Set(math.NaN())
}
