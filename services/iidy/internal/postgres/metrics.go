package postgres

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// The values of the label change, beside those that changeLabel gives.
const (
	claimed   = "claimed"
	extended  = "extended"
	released  = "released"
	abandoned = "abandoned"
)

func changeLabel(c attempt.Change) string {
	switch c {
	case attempt.Increment:
		return "incremented"
	case attempt.Delete:
		return "deleted"
	case attempt.Add:
	}
	return "added"
}

type metrics struct {
	items   *prometheus.CounterVec
	batches *prometheus.HistogramVec
	refused prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, inFlight func() float64) (*metrics, error) {
	m := &metrics{
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iidy_items_total", Help: "Items that were really changed, by what was done with them.",
		}, []string{"change"}),
		batches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iidy_batch_items", Help: "Items in a batch as it was sent, repeated ones included.",
			Buckets: []float64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000},
		}, []string{"change"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iidy_bulk_refused_total", Help: "Long batches refused because BULK_IN_FLIGHT others were under way.",
		}),
	}
	// A counter that is absent until its first event hides that event from rate().
	for _, c := range []attempt.Change{attempt.Add, attempt.Increment, attempt.Delete} {
		m.items.WithLabelValues(changeLabel(c))
		m.batches.WithLabelValues(changeLabel(c))
	}
	for _, label := range []string{claimed, extended, released, abandoned} {
		m.items.WithLabelValues(label)
	}
	bulk := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "iidy_bulk_in_flight", Help: "Long batches under way, each with a connection of its own.",
	}, inFlight)
	for _, c := range []prometheus.Collector{m.items, m.batches, m.refused, bulk} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of iidy: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) changed(c attempt.Change, n int64) {
	m.items.WithLabelValues(changeLabel(c)).Add(float64(n))
}

func (m *metrics) batch(c attempt.Change, items int) {
	m.batches.WithLabelValues(changeLabel(c)).Observe(float64(items))
}
