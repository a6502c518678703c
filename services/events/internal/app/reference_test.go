package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/events/internal/app"
)

const reference = "../../REFERENCE.md"

// The reference page shows configuration and metrics, and nothing that a client sends adds a series to these.
func TestReference(t *testing.T) {
	t.Parallel()
	apptest.ReferenceShowsConfiguration(t, reference, new(app.Config))
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		r := serve(t, open(false))
		if a := post(t, r.api+"/events"); a.Status != 201 {
			t.Fatal(a)
		}
		apptest.ReferenceShowsMetrics(t, reference, r.Replica, "events_")
		apptest.SeriesAreBounded(t, r.Replica, r.api, "/events", "/events/async", "/events/%s")
	})
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"another engine":               {"DATABASE_URL": "oracle://u:s3cret@h/db"},
		"groups take every connection": {"COALESCE_IN_FLIGHT": "3", "DB_MAX_OPEN_CONNS": "4"},
		"no batch":                     {"WORKER_BATCH": "0"},
		"migrations go elsewhere":      {"MIGRATE_DATABASE_URL": "mysql://u:s3cret@h/db"},
	})
}

// TestSmallPools: each size of the pool is accepted, and workers leave a connection to probes where there are two.
func TestSmallPools(t *testing.T) {
	t.Parallel()
	for conns, want := range map[string]int{"1": 1, "2": 1, "3": 2, "8": 2} {
		cfg := apptest.Config[app.Config](t, "postgres://h/db", map[string]string{"DB_MAX_OPEN_CONNS": conns})
		if got := cfg.Workers(); got != want {
			t.Errorf("%s connections: %d workers, want %d", conns, got, want)
		}
	}
}
