package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

const reference = "../../REFERENCE.md"

// The reference page shows configuration and metrics, and nothing that a client sends adds a series to these. Repeats
// and conflicts of a key are counted.
func TestReference(t *testing.T) {
	t.Parallel()
	apptest.ReferenceShowsConfiguration(t, reference, new(app.Config))
	r := start(t, dbtest.Postgres(t, postgres.Migrations()))
	want(t, "POST", r.API+internalCounts, `{"itemId":"a"}`, 201, "")
	for _, amount := range []string{"1", "1", "2"} {
		header := apptest.JSON()
		header["Idempotency-Key"] = "k"
		apptest.Send(t, "POST", r.API+counts+"a/increase", `{"amount":`+amount+`}`, header)
	}
	replays, conflicts := r.Metric(t, "counts_replays_total"), r.Metric(t, "counts_conflicts_total")
	if replays != 1 || conflicts != 1 {
		t.Errorf("%g replays and %g conflicts are counted, want 1 each", replays, conflicts)
	}
	apptest.ReferenceShowsMetrics(t, reference, r, "counts_")
	apptest.SeriesAreBounded(t, r, r.API, counts+"%s/increase", counts+"%s/%s", internalCounts, internalCounts+"/%s")
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"bad internal address":         {"INTERNAL_HTTP_ADDR": "nonsense"},
		"groups take every connection": {"COALESCE_IN_FLIGHT": "3", "DB_MAX_OPEN_CONNS": "4"},
	})
}
