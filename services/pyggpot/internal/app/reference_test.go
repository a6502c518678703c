package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
)

const reference = "../../REFERENCE.md"

// The reference page shows configuration and metrics, and nothing that a client sends adds a series to these.
func TestReference(t *testing.T) {
	t.Parallel()
	apptest.ReferenceShowsConfiguration(t, reference, new(app.Config))
	r, _ := start(t, nil)
	apptest.Get(t, r.API+"/docs")
	apptest.ReferenceShowsMetrics(t, reference, r.Replica, "pyggpot_")
	apptest.SeriesAreBounded(t, r.Replica, r.API, "/pyggpot.pot.Pot/CreatePot", "/pyggpot.pot.Pot/%s", "/twirp/%s/%s")
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"no time to live":       {"LOCK_TTL": "0s"},
		"fewer than no retries": {"LOCK_RETRIES": "-1"},
		"no wait":               {"LOCK_RETRY_WAIT": "0s"},
		"too few connections":   {"DB_MAX_OPEN_CONNS": "2"},
	})
}
