package auth

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts refusals and failed reads. A replica without a Guard exposes them too, at zero.
type Metrics struct {
	refused *prometheus.CounterVec
	issuer  prometheus.Counter
	policy  prometheus.Counter
}

// NewMetrics registers the metrics. It panics if the registry has them already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rowlock_auth_refused_total",
			Help: "Requests refused because of their caller, by reason.",
		}, []string{"reason"}),
		issuer: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_auth_issuer_errors_total",
			Help: "Failed attempts to fetch the issuer's keys.",
		}),
		policy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_auth_policy_errors_total",
			Help: "Failed policy reloads; the previous policy stays in force.",
		}),
	}

	// A series that first appears with a burst hides it from increase(), so start all of them at zero.
	for why := range sentences() {
		m.refused.WithLabelValues(string(why))
	}

	registry.MustRegister(m.refused, m.issuer, m.policy)
	return m
}
