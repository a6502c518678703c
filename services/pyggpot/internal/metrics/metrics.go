// Package metrics counts what leases do, for Prometheus.
package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

// Metrics implements the store's observer.
type Metrics struct {
	wait      prometheus.Histogram
	conflicts prometheus.Counter
	retries   prometheus.Counter
	takeOvers prometheus.Counter
	lost      prometheus.Counter
}

var _ postgres.Observer = (*Metrics)(nil)

// New registers the metrics.
func New(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "pyggpot_lease_" + name + "_total", Help: help})
	}
	m := &Metrics{
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pyggpot_lease_wait_seconds",
			Help:    "Time until a change held its pot's lease, or gave up: behind others of this replica and behind other replicas.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10},
		}),
		conflicts: counter("conflicts", "Tries that found the pot leased to another replica."),
		retries:   counter("retries", "Further tries to lease a pot."),
		takeOvers: counter("takeovers", "Leases taken that had expired in their holder's hands."),
		lost:      counter("lost", "Changes that were refused because their lease had expired or was taken over. Nothing was changed."),
	}
	for _, c := range []prometheus.Collector{m.wait, m.conflicts, m.retries, m.takeOvers, m.lost} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of pyggpot: %w", err)
		}
	}
	return m, nil
}

// Waited implements postgres.Observer.
func (m *Metrics) Waited(d time.Duration) { m.wait.Observe(d.Seconds()) }

// Conflict implements postgres.Observer.
func (m *Metrics) Conflict() { m.conflicts.Inc() }

// Retry implements postgres.Observer.
func (m *Metrics) Retry() { m.retries.Inc() }

// TookOver implements postgres.Observer.
func (m *Metrics) TookOver() { m.takeOvers.Inc() }

// Lost implements postgres.Observer.
func (m *Metrics) Lost() { m.lost.Inc() }
