package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.want(t, "POST", items+"/a", "", 201, "ADDED 1")
	apptest.ReadmeNamesMetrics(t, readme, r.Metrics(t), "iidy_")
}

// Whatever a client sends, /metrics grows by nothing.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	apptest.SeriesAreBounded(t, r.Replica, r.api,
		"/iidy/v1/lists/%s", "/iidy/v1/lists/%s/%s", "/iidy/v1/batch/lists/%s", "/iidy/v1/%s/lists/%s/%s")
}
