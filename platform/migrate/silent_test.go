package migrate_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/waittest"
)

// The network takes a statement and brings no answer. What
// only looks gives up and is tried again, as after a refused connection.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"looking for the history": "FROM pg_tables",
		"taking the lock":         "pg_try_advisory_xact_lock",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := dbtest.Empty(t)
			proxy := faultproxy.New(t, url)
			proxy.Cut(faultproxy.AfterStatement, faultproxy.Hang, faultproxy.Matching(statement))
			logs := new(apptest.Log)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := migrate.Up(ctx, proxy.DSN(url), source(), slog.New(slog.NewTextHandler(logs, nil))); err != nil {
				t.Fatal(err)
			}
			if got := logs.String(); proxy.Cuts() != 1 || !strings.Contains(got, "did not answer within 5s") {
				t.Errorf("%d cuts, log %s", proxy.Cuts(), got)
			}
			wantComplete(t, apptest.Open(t, url))
		})
	}
}

// A process that is asked to stop while a migration
// runs ends with its context's error, and the migration is rolled back.
func TestCalledOffInTheMiddle(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	db := apptest.Open(t, url)
	src := with("00004_slow.sql", "-- +goose Up\nCREATE TABLE shop.half ();\nSELECT pg_sleep(60);\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- migrate.Up(ctx, url, src, quiet()) }()
	waittest.Eventually(t, "the migration runs", func() bool {
		var n int
		scan(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND query LIKE 'SELECT pg_sleep(60)%' AND state = 'active'`, &n)
		return n == 1
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantComplete(t, db)
	var locks int
	scan(t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, &locks)
	if locks != 0 {
		t.Errorf("%d locks stayed", locks)
	}
}
