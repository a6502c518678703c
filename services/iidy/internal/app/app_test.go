package app_test

import (
	"io"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
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
	r := start(t, nil)
	r.want(t, "POST", items+"/a", "", 201, "ADDED 1")
	apptest.ReadmeNamesMetrics(t, readme, r.Metrics(t), "iidy_")
}

// No request adds a time series to /metrics.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	apptest.SeriesAreBounded(t, r.Replica, r.API,
		"/iidy/v1/lists/%s", "/iidy/v1/lists/%s/%s", "/iidy/v1/batch/lists/%s", "/iidy/v1/%s/lists/%s/%s")
}

func TestStartRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	for name, env := range map[string]map[string]string{
		"no database":            {"DATABASE_URL": ""},
		"timeouts do not grow":   {"BULK_TIMEOUT": "10s"},
		"bulk takes the pool":    {"BULK_IN_FLIGHT": "4"},
		"groups take the pool":   {"COALESCE_IN_FLIGHT": "2"},
		"no long batches":        {"BULK_IN_FLIGHT": "0"},
		"the pool is too little": {"DB_MAX_OPEN_CONNS": "6"},
	} {
		full := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.Service().New(t.Context(), cfg, chassis.Process{Output: io.Discard})
		}
		if err == nil || password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
