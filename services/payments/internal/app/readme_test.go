package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	dsn, _ := open(t)
	r := start(t, dsn, nil)
	r.pay(t, "k", body(1, goodCard)).paid(t)
	apptest.ReadmeNamesMetrics(t, readme, r.Replica, "payments_")
	apptest.SeriesAreBounded(t, r.Replica, r.api, "/v1/payments", "/v1/payments/%s")
}
