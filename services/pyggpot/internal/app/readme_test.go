package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	apptest.Get(t, "http://"+r.addr+"/docs")
	apptest.ReadmeNamesMetrics(t, readme, r.Replica, "pyggpot_")
}

// Whatever a client sends, /metrics grows by nothing.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	apptest.SeriesAreBounded(t, r.Replica, "http://"+r.addr, "/pyggpot.pot.Pot/CreatePot", "/pyggpot.pot.Pot/%s", "/twirp/%s/%s")
}
