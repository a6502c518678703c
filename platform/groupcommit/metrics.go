package groupcommit

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what one committer does. The label is "coalescer", as dashboards and alerts know it.
type metrics struct {
	size    prometheus.Histogram
	wait    prometheus.Histogram
	queue   prometheus.Gauge
	slow    prometheus.Gauge
	gaveUp  prometheus.Counter
	refused prometheus.Counter
}

// newMetrics registers the metrics with reg, which may be nil.
func newMetrics(reg prometheus.Registerer, name string) (*metrics, error) {
	labels := prometheus.Labels{"coalescer": name}
	histogram := func(metric, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: metric, Help: help, ConstLabels: labels, Buckets: buckets})
	}
	gauge := func(metric, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: metric, Help: help, ConstLabels: labels})
	}
	counter := func(metric, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: metric, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		size: histogram("rowlock_coalesce_batch_size", "Requests carried by one statement.",
			1, 2, 5, 10, 20, 50, 100, 200, 500),
		wait: histogram("rowlock_coalesce_wait_seconds", "Time from a request's arrival until its statement was sent.",
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5),
		queue: gauge("rowlock_coalesce_queue_length", "Requests that wait to be sent."),
		slow: gauge("rowlock_coalesce_slow_keys",
			"Keys whose row is locked by another transaction and that have their own lane."),
		gaveUp: counter("rowlock_coalesce_locked_out_total",
			"Requests refused because their row stayed locked for the whole lock timeout."),
		refused: counter("rowlock_coalesce_queue_full_total", "Requests refused because the queue was full."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.size, m.wait, m.queue, m.slow, m.gaveUp, m.refused} {
		if err := reg.Register(c); err != nil {
			return nil, err //nolint:wrapcheck // New wraps it
		}
	}
	return m, nil
}
