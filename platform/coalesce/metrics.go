package coalesce

import "github.com/prometheus/client_golang/prometheus"

// metrics holds one coalescer's children of the shared vectors, looked up once and not
// for each request.
type metrics struct {
	size    prometheus.Observer
	wait    prometheus.Observer
	queue   prometheus.Gauge
	slow    prometheus.Gauge
	gaveUp  prometheus.Counter
	refused prometheus.Counter
}

// newMetrics registers the vectors, or uses those that another coalescer of the process
// has registered, and returns their children for name.
func newMetrics(reg prometheus.Registerer, name string) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	var err error
	fail := func(failure error) {
		if err == nil {
			err = failure
		}
	}
	labels := []string{"coalescer"}
	histogram := func(metric, help string, buckets []float64) prometheus.Observer {
		opts := prometheus.HistogramOpts{Name: metric, Help: help, Buckets: buckets}
		return register(reg, prometheus.NewHistogramVec(opts, labels), fail).WithLabelValues(name)
	}
	gauge := func(metric, help string) prometheus.Gauge {
		opts := prometheus.GaugeOpts{Name: metric, Help: help}
		return register(reg, prometheus.NewGaugeVec(opts, labels), fail).WithLabelValues(name)
	}
	counter := func(metric, help string) prometheus.Counter {
		opts := prometheus.CounterOpts{Name: metric, Help: help}
		return register(reg, prometheus.NewCounterVec(opts, labels), fail).WithLabelValues(name)
	}
	m := &metrics{
		size: histogram("rowlock_coalesce_batch_size", "Requests carried by one statement.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500}),
		wait: histogram("rowlock_coalesce_wait_seconds", "Time from a request's arrival until its statement was sent.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}),
		queue: gauge("rowlock_coalesce_queue_length", "Requests that wait to be sent."),
		slow: gauge("rowlock_coalesce_slow_keys",
			"Keys whose row is locked by another transaction and that have a lane of their own."),
		gaveUp: counter("rowlock_coalesce_locked_out_total",
			"Requests refused because their row stayed locked for the whole lock timeout."),
		refused: counter("rowlock_coalesce_queue_full_total", "Requests refused because the queue was full."),
	}
	return m, err
}

// register registers vec, or returns the registered vector of the same name. It calls
// fail for any other failure.
func register[V prometheus.Collector](reg prometheus.Registerer, vec V, fail func(error)) V {
	failure := reg.Register(vec)
	if old, ok := failure.(prometheus.AlreadyRegisteredError); ok { //nolint:errorlint // returned unwrapped, as documented
		if v, same := old.ExistingCollector.(V); same {
			return v
		}
	}
	fail(failure)
	return vec
}
