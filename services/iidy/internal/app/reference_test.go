package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
)

const reference = "../../REFERENCE.md"

// The reference page shows configuration and metrics, and nothing that a client sends adds a series to these.
func TestReference(t *testing.T) {
	t.Parallel()
	apptest.ReferenceShowsConfiguration(t, reference, new(app.Config))
	r := start(t, nil)
	r.want(t, "POST", items+"/a", "", 201, "ADDED 1")
	apptest.ReferenceShowsMetrics(t, reference, r.Replica, "iidy_")
	apptest.SeriesAreBounded(t, r.Replica, r.API,
		"/iidy/v1/lists/%s", "/iidy/v1/lists/%s/%s", "/iidy/v1/batch/lists/%s", "/iidy/v1/%s/lists/%s/%s")
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"timeouts do not grow":   {"BULK_TIMEOUT": "10s"},
		"bulk takes the pool":    {"BULK_IN_FLIGHT": "4"},
		"groups take the pool":   {"COALESCE_IN_FLIGHT": "2"},
		"no long batches":        {"BULK_IN_FLIGHT": "0"},
		"the pool is too little": {"DB_MAX_OPEN_CONNS": "6"},
	})
}
