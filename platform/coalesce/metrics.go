package coalesce

import "github.com/prometheus/client_golang/prometheus"

// metrics are one coalescer's children of the shared vectors, resolved once so
// that the hot path does not look labels up.
type metrics struct {
	size    prometheus.Observer
	wait    prometheus.Observer
	queue   prometheus.Gauge
	slow    prometheus.Gauge
	gaveUp  prometheus.Counter
	refused prometheus.Counter
}

const label = "coalescer"

// newMetrics registers the vectors, or joins those that another coalescer of
// the process has registered.
func newMetrics(reg prometheus.Registerer, name string) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	var r registrar
	m := &metrics{
		size: r.histogram(reg, "rowlock_coalesce_batch_size", "Requests carried by one statement.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500}).WithLabelValues(name),
		wait: r.histogram(reg, "rowlock_coalesce_wait_seconds", "Time from a request's arrival until its statement was sent.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}).WithLabelValues(name),
		queue: r.gauge(reg, "rowlock_coalesce_queue_length", "Requests that wait to be sent.").WithLabelValues(name),
		slow: r.gauge(reg, "rowlock_coalesce_slow_keys",
			"Keys whose row is locked by somebody else and that have a lane of their own.").WithLabelValues(name),
		gaveUp: r.counter(reg, "rowlock_coalesce_locked_out_total",
			"Requests refused because their row stayed locked for the whole lock timeout.").WithLabelValues(name),
		refused: r.counter(reg, "rowlock_coalesce_queue_full_total",
			"Requests refused because the queue was full.").WithLabelValues(name),
	}
	return m, r.err
}

// registrar registers vectors and keeps the first error.
type registrar struct{ err error }

func (r *registrar) histogram(reg prometheus.Registerer, name, help string, buckets []float64) *prometheus.HistogramVec {
	return register(r, reg, prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label}))
}

func (r *registrar) gauge(reg prometheus.Registerer, name, help string) *prometheus.GaugeVec {
	return register(r, reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label}))
}

func (r *registrar) counter(reg prometheus.Registerer, name, help string) *prometheus.CounterVec {
	return register(r, reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}))
}

func register[V prometheus.Collector](r *registrar, reg prometheus.Registerer, vec V) V {
	err := reg.Register(vec)
	if err == nil {
		return vec
	}
	if old, ok := err.(prometheus.AlreadyRegisteredError); ok { //nolint:errorlint // returned unwrapped, as documented
		if v, same := old.ExistingCollector.(V); same {
			return v
		}
	}
	if r.err == nil {
		r.err = err
	}
	return vec
}
