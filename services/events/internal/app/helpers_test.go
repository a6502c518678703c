package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/app"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// execute runs a statement on the table status without the service.
func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	table := "events.status"
	if strings.HasPrefix(dsn, "mysql://") {
		table = "status"
	}
	db := apptest.Pool(t, sqldb.Settings{URL: dsn, Engines: []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL}}, nil)
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(statement, table))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const readme = "../../README.md"

func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	apptest.ReadmeShowsConfiguration(t, readme, new(app.Config))
}

func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		r := serve(t, open(false))
		if a := post(t, r.api+"/events"); a.Status != 201 {
			t.Fatal(a)
		}
		apptest.ReadmeNamesMetrics(t, readme, r.Replica, "events_")
	})
}

// TestClientsMakeNoSeries: no request of a client adds a time series.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := serve(t, dbtest.Postgres(t, postgres.Migrations()))
	apptest.SeriesAreBounded(t, r.Replica, r.api, "/events", "/events/async", "/events/%s")
}
