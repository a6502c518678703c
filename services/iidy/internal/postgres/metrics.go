package postgres

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

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

func changeLabel(c attempt.Change) string {
	return [...]string{attempt.Add: added, attempt.Increment: incremented, attempt.Delete: deleted}[c]
}

type metrics struct {
	items   *prometheus.CounterVec
	batches *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iidy_items_total", Help: "Items that were really changed, by change.",
		}, []string{"change"}),
		batches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iidy_batch_items", Help: "Items in a batch as it was sent, repeated ones included.",
			Buckets: []float64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000},
		}, []string{"change"}),
	}
	// A counter that is absent until its first event hides that event from rate().
	for _, label := range []string{added, incremented, deleted, claimed, extended, released, abandoned} {
		m.items.WithLabelValues(label)
	}
	for _, c := range attempt.Changes() {
		m.batches.WithLabelValues(changeLabel(c))
	}
	return m, register(reg, m.items, m.batches)
}

func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register the metrics of iidy: %w", err)
		}
	}
	return nil
}

// count adds the number of items that were changed.
func (m *metrics) count(label string, n int64) { m.items.WithLabelValues(label).Add(float64(n)) }

// batch observes the number of items that a batch was sent with.
func (m *metrics) batch(c attempt.Change, items int) {
	m.batches.WithLabelValues(changeLabel(c)).Observe(float64(items))
}
