// Package metrics holds the Prometheus metrics of the iidy service.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Metrics counts the items and batches that a replica changed.
type Metrics struct {
	// LongBatches counts the long batches that are being applied, LongRefused those that were refused.
	LongBatches prometheus.Gauge
	LongRefused prometheus.Counter
	// AnswerBytes counts the bytes that large answers hold, AnswersRefused the large answers that were refused.
	AnswerBytes    prometheus.Gauge
	AnswersRefused prometheus.Counter

	items   *prometheus.CounterVec
	batches *prometheus.HistogramVec
}

// Kind is a value of the label change.
type Kind string

// The kinds of changes.
const (
	Added       Kind = "added"
	Incremented Kind = "incremented"
	Deleted     Kind = "deleted"
	Claimed     Kind = "claimed"
	Extended    Kind = "extended"
	Released    Kind = "released"
	Abandoned   Kind = "abandoned"
)

// KindOf returns the kind of a change.
func KindOf(c attempt.Change) Kind {
	return [...]Kind{attempt.Add: Added, attempt.Increment: Incremented, attempt.Delete: Deleted}[c]
}

// New registers the metrics with reg.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iidy_items_total", Help: "Items changed, by change.",
		}, []string{"change"}),
		batches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iidy_batch_items", Help: "Items in a batch as sent, repeated ones included.",
			Buckets: []float64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000},
		}, []string{"change"}),
		LongBatches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "iidy_bulk_in_flight", Help: "Long batches that are being applied, one connection each.",
		}),
		LongRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iidy_bulk_refused_total",
			Help: "Long batches refused because their time ran out while BULK_IN_FLIGHT others ran.",
		}),
		AnswerBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "iidy_large_answer_bytes", Help: "Bytes held by answers above 1 MiB, at most 64 MiB.",
		}),
		AnswersRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iidy_large_answers_refused_total", Help: "Pages and claims refused because others held these 64 MiB.",
		}),
	}

	// A counter that is absent until its first event hides that event from rate().
	for _, kind := range []Kind{Added, Incremented, Deleted, Claimed, Extended, Released, Abandoned} {
		m.Changed(kind, 0)
	}
	for _, c := range attempt.Changes() {
		m.batches.WithLabelValues(string(KindOf(c)))
	}

	reg.MustRegister(m.items, m.batches, m.LongBatches, m.LongRefused, m.AnswerBytes, m.AnswersRefused)
	return m
}

// Changed records that n items were changed.
func (m *Metrics) Changed(kind Kind, n int64) { m.items.WithLabelValues(string(kind)).Add(float64(n)) }

// Batch records the number of items in a batch as sent.
func (m *Metrics) Batch(c attempt.Change, items int) {
	m.batches.WithLabelValues(string(KindOf(c))).Observe(float64(items))
}
