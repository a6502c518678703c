// Package metrics counts repeated requests and deleted rows for Prometheus.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Metrics implements the domain's observer, and counts deleted rows.
type Metrics struct {
	replays, conflicts prometheus.Counter
	deleted            prometheus.Counter
}

var _ counting.Observer = (*Metrics)(nil)

// New registers the metrics.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_replays_total", Help: "Stored answers that were returned to a repeated request.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_conflicts_total", Help: "Requests refused because their key belongs to another request.",
		}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_cleanup_deleted_total", Help: "Expired rows that this replica deleted.",
			ConstLabels: prometheus.Labels{"table": "keys"},
		}),
	}

	reg.MustRegister(m.replays, m.conflicts, m.deleted)
	return m
}

// Replayed implements counting.Observer.
func (m *Metrics) Replayed() { m.replays.Inc() }

// Conflict implements counting.Observer.
func (m *Metrics) Conflict() { m.conflicts.Inc() }

// Deleted counts n expired keys that were deleted.
func (m *Metrics) Deleted(n int) { m.deleted.Add(float64(n)) }
