package groupcommit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts what one committer does. The label is "coalescer", as dashboards and alerts know it.
type metrics struct {
	size, wait      prometheus.Histogram
	queue, slow     prometheus.Gauge
	gaveUp, refused prometheus.Counter
}

// newMetrics registers the metrics with reg, which may be nil. It panics if another committer has the name.
func newMetrics(reg prometheus.Registerer, name string) *metrics {
	auto := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"coalescer": name}, reg))

	return &metrics{
		size: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "rowlock_coalesce_batch_size", Help: "Requests carried by one statement.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500},
		}),
		wait: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "rowlock_coalesce_wait_seconds", Help: "Time from a request's arrival until its statement was sent.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		queue: auto.NewGauge(prometheus.GaugeOpts{
			Name: "rowlock_coalesce_queue_length", Help: "Requests that wait to be sent.",
		}),
		slow: auto.NewGauge(prometheus.GaugeOpts{
			Name: "rowlock_coalesce_slow_keys",
			Help: "Keys whose row is locked by another transaction and that have their own lane.",
		}),
		gaveUp: auto.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_coalesce_locked_out_total",
			Help: "Requests refused because their row stayed locked for the whole lock timeout.",
		}),
		refused: auto.NewCounter(prometheus.CounterOpts{
			Name: "rowlock_coalesce_queue_full_total", Help: "Requests refused because the queue was full.",
		}),
	}
}
