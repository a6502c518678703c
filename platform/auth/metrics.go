package auth

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what a Guard refuses, and what it could not read. A replica without one has them as well, at zero.
type Metrics struct {
	refused *prometheus.CounterVec
	issuer  prometheus.Counter
	policy  prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rowlock_auth_refused_total",
			Help: "Requests refused because of their caller, by reason.",
		}, []string{"reason"}),
		issuer: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_auth_issuer_errors_total",
			Help: "Attempts to get the issuer's keys that failed.",
		}),
		policy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_auth_policy_errors_total",
			Help: "Looks at the policy's file that found a bad one, while an earlier policy holds.",
		}),
	}
	for why := range sentences() {
		m.refused.WithLabelValues(string(why)) // a series that begins with a burst would not count in increase()
	}
	for _, c := range []prometheus.Collector{m.refused, m.issuer, m.policy} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("auth: metrics: %w", err)
		}
	}
	return m, nil
}
