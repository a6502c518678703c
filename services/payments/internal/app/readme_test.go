package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.pay(t, "k", body(1, goodCard)).want(t, http.StatusCreated, "SUCCEEDED")
	apptest.ReadmeNamesMetrics(t, readme, r.Metrics(t), "payments_")
}

// Whatever a client sends, /metrics grows by nothing.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	for i := range 5 {
		r.pay(t, fmt.Sprint("hostile", i), body(1, goodCard)).want(t, http.StatusCreated, "SUCCEEDED")
	}
	apptest.SeriesAreBounded(t, r.Replica, r.api, "/v1/payments", "/v1/payments/%s")
}
