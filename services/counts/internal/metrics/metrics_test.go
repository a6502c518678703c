package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/services/counts/internal/metrics"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	m.Replayed()
	m.Replayed()
	m.Conflict()
	m.Deleted(3)
	const want = `
# HELP counts_cleanup_deleted_total Expired rows that this replica deleted.
# TYPE counts_cleanup_deleted_total counter
counts_cleanup_deleted_total{table="keys"} 3
# HELP counts_conflicts_total Requests refused because their key belongs to another request.
# TYPE counts_conflicts_total counter
counts_conflicts_total 1
# HELP counts_replays_total Stored answers that were returned to a repeated request.
# TYPE counts_replays_total counter
counts_replays_total 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if _, err := metrics.New(reg); err == nil {
		t.Error("the metrics were registered twice")
	}
}
