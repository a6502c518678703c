package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/counts/internal/metrics"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	m.Replayed()
	m.Replayed()
	m.Conflict()
	m.Deleted(3)
	for series, want := range map[string]float64{
		"counts_replays_total": 2, "counts_conflicts_total": 1, `counts_cleanup_deleted_total{table="keys"}`: 3,
	} {
		if got := apptest.Gathered(t, reg, series); got != want {
			t.Errorf("%s is %g, want %g", series, got, want)
		}
	}
}
