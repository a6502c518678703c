// Package metrics holds the Prometheus metrics of the iidy service.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Metrics counts the items and batches that a replica changed.
type Metrics struct {
	items    *prometheus.CounterVec
	batches  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  prometheus.Counter
	answers  prometheus.Gauge
	noMemory prometheus.Counter
}

// The values of the label change.
const (
	added       = "added"
	incremented = "incremented"
	deleted     = "deleted"
	claimed     = "claimed"
	extended    = "extended"
	released    = "released"
	abandoned   = "abandoned"
)

func label(c attempt.Change) string {
	return [...]string{attempt.Add: added, attempt.Increment: incremented, attempt.Delete: deleted}[c]
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
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "iidy_bulk_in_flight", Help: "Long batches that are being applied, one connection each.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iidy_bulk_refused_total",
			Help: "Long batches refused because their time ran out while BULK_IN_FLIGHT others ran.",
		}),
		answers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "iidy_large_answer_bytes", Help: "Bytes held by answers above 1 MiB, at most 64 MiB.",
		}),
		noMemory: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iidy_large_answers_refused_total", Help: "Pages and claims refused because others held these 64 MiB.",
		}),
	}

	// A counter that is absent until its first event hides that event from rate().
	for _, change := range []string{added, incremented, deleted, claimed, extended, released, abandoned} {
		m.items.WithLabelValues(change)
	}
	for _, c := range attempt.Changes() {
		m.batches.WithLabelValues(label(c))
	}

	reg.MustRegister(m.items, m.batches, m.inFlight, m.refused, m.answers, m.noMemory)
	return m
}

// Changed records that n items were changed.
func (m *Metrics) Changed(c attempt.Change, n int64) { m.count(label(c), n) }

// Claimed records that n items were claimed.
func (m *Metrics) Claimed(n int) { m.count(claimed, int64(n)) }

// Extended records that the lease of n items was extended.
func (m *Metrics) Extended(n int64) { m.count(extended, n) }

// Released records that n items were released.
func (m *Metrics) Released(n int64) { m.count(released, n) }

// Abandoned records that n items were deleted for their number of attempts.
func (m *Metrics) Abandoned(n int64) { m.count(abandoned, n) }

func (m *Metrics) count(change string, n int64) { m.items.WithLabelValues(change).Add(float64(n)) }

// Batch records the number of items in a batch as sent.
func (m *Metrics) Batch(c attempt.Change, items int) {
	m.batches.WithLabelValues(label(c)).Observe(float64(items))
}

// LongBatch records a long batch that is being applied until ended is called.
func (m *Metrics) LongBatch() (ended func()) {
	m.inFlight.Inc()
	return m.inFlight.Dec
}

// LongBatchRefused records that a long batch was refused because others took its time.
func (m *Metrics) LongBatchRefused() { m.refused.Inc() }

// AnswerBytes adds n, which may be negative, to the bytes held by large answers.
func (m *Metrics) AnswerBytes(n int64) { m.answers.Add(float64(n)) }

// AnswerRefused records that a large answer was refused.
func (m *Metrics) AnswerRefused() { m.noMemory.Inc() }
