// Package metrics counts repeated requests and deleted rows for Prometheus.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what a replica does.
type Metrics struct {
	// Replays counts repeated requests, and Conflicts those of another request's key.
	Replays, Conflicts prometheus.Counter
	// Deleted counts expired keys that were deleted.
	Deleted prometheus.Counter
}

// New registers the metrics.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		Replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_replays_total", Help: "Stored answers that were returned to a repeated request.",
		}),
		Conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_conflicts_total", Help: "Requests refused because their key belongs to another request.",
		}),
		Deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "counts_cleanup_deleted_total", Help: "Expired rows that this replica deleted.",
			ConstLabels: prometheus.Labels{"table": "keys"},
		}),
	}

	reg.MustRegister(m.Replays, m.Conflicts, m.Deleted)
	return m
}
