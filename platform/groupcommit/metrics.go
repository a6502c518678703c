package groupcommit

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what one committer does. The label is "coalescer", as dashboards and alerts know it.
type metrics struct {
	size, wait      prometheus.Histogram
	queue, slow     prometheus.Gauge
	gaveUp, refused prometheus.Counter
}

// newMetrics registers the metrics with reg, which may be nil. It panics if another committer has the name.
func newMetrics(reg prometheus.Registerer, name string) *metrics {
	m := &metrics{
		size: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rowlock_coalesce_batch_size", Help: "Requests carried by one statement.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500},
		}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rowlock_coalesce_wait_seconds", Help: "Time from a request's arrival until its statement was sent.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		queue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rowlock_coalesce_queue_length", Help: "Requests that wait to be sent.",
		}),
		slow: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rowlock_coalesce_slow_keys",
			Help: "Keys whose row is locked by another transaction and that have their own lane.",
		}),
		gaveUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_coalesce_locked_out_total",
			Help: "Requests refused because their row stayed locked for the whole lock timeout.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_coalesce_queue_full_total", Help: "Requests refused because the queue was full.",
		}),
	}

	reg = prometheus.WrapRegistererWith(prometheus.Labels{"coalescer": name}, reg)
	reg.MustRegister(m.size, m.wait, m.queue, m.slow, m.gaveUp, m.refused)
	return m
}
