package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.create(t, "a")
	apptest.ReadmeNamesMetrics(t, readme, r.Metrics(t))
}

// Whatever a client sends, /metrics grows by nothing.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	apptest.SeriesAreBounded(t, r.Replica, r.api, counts+"%s/increase", counts+"%s/%s", internalCounts, internalCounts+"/%s")
}
