// Package metrics holds the Prometheus metrics of the events service.
package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/worker"
)

// Metrics implements worker.Observer.
type Metrics struct {
	pending  prometheus.Gauge
	distance prometheus.Gauge
	claimed  prometheus.Histogram
	worked   prometheus.Counter
	empty    prometheus.Counter
	failed   prometheus.Counter
}

var _ worker.Observer = (*Metrics)(nil)

// New registers the metrics with reg.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "events_pending", Help: "Pending events, counted about every 10 s; NaN when that failed.",
		}),
		distance: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "events_oldest_pending_distance",
			Help: "Events added since the oldest pending one, itself included; 0 when none is pending.",
		}),
		claimed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "events_claimed_batch_size", Help: "Events worked by one transaction.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}),
		worked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_worked_total", Help: "Events to which this process gave a value.",
		}),
		empty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_empty_polls_total", Help: "Polls that found no pending event.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "events_failed_batches_total", Help: "Batches that were rolled back, or whose outcome is unknown.",
		}),
	}

	m.pending.Set(math.NaN())
	m.distance.Set(math.NaN())
	reg.MustRegister(m.pending, m.distance, m.claimed, m.worked, m.empty, m.failed)
	return m
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

// Backlog records the pending events, or NaN if err says that they could not be counted.
func (m *Metrics) Backlog(b event.Backlog, err error) {
	pending, distance := float64(b.Pending), float64(b.Distance)
	if err != nil {
		pending, distance = math.NaN(), math.NaN()
	}
	m.pending.Set(pending)
	m.distance.Set(distance)
}
