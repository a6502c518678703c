package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	apptest.Get(t, r.API+"/docs")
	apptest.ReadmeNamesMetrics(t, readme, r.Replica, "pyggpot_")
}

// TestClientsMakeNoSeries: no request of a client adds a time series.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	apptest.SeriesAreBounded(t, r.Replica, r.API, "/pyggpot.pot.Pot/CreatePot", "/pyggpot.pot.Pot/%s", "/twirp/%s/%s")
}
