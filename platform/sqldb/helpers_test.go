package sqldb_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// change adapts the settings of a test's pool.
type change func(*sqldb.Settings)

// bothEngines are those that the tests' pools may be of.
func bothEngines() []sqldb.Engine { return []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL} }

// open opens a pool that is closed when the test ends.
func open(tb testing.TB, url string, changes ...change) *sqldb.DB {
	tb.Helper()
	settings := sqldb.Settings{URL: url, Engines: bothEngines(), ApplicationName: "sqldb-test"}
	for _, c := range changes {
		c(&settings)
	}
	db, err := sqldb.Open(tb.Context(), settings, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return db
}

// counterDatabase is a database with two counters, a and b, at 0.
func counterDatabase(tb testing.TB) string {
	tb.Helper()
	url := dbtest.Empty(tb)
	execute(tb, open(tb, url), `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000));
		INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// execute runs statements without parameters.
func execute(tb testing.TB, db *sqldb.DB, statements string) {
	tb.Helper()
	err := db.InTx(tb.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, statements)
		return err
	})
	if err != nil {
		tb.Fatalf("execute: %v", err)
	}
}

// value reads a counter.
func value(tb testing.TB, db *sqldb.DB, id string) int64 {
	tb.Helper()
	var n int64
	if err := db.GetContext(tb.Context(), &n, `SELECT n FROM counter WHERE id = $1`, id); err != nil {
		tb.Fatalf("read counter %s: %v", id, err)
	}
	return n
}

// add adds to a counter inside a transaction.
func add(ctx context.Context, tx *sqlx.Tx, id string, n int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE counter SET n = n + $2 WHERE id = $1`, id, n)
	return err
}

// wantError checks the outcome and the reason of an error.
func wantError(tb testing.TB, err error, outcome sqldb.Outcome, reason sqldb.Reason) {
	tb.Helper()
	if e := classified(tb, err); e.Outcome != outcome || e.Reason != reason {
		tb.Fatalf("got %q, want %s, %s", err, outcome, reason)
	}
}

// classified is the error's part of this package.
func classified(tb testing.TB, err error) *sqldb.Error {
	tb.Helper()
	e, ok := errors.AsType[*sqldb.Error](err)
	if !ok {
		tb.Fatalf("got %v (%T), want an *sqldb.Error", err, err)
	}
	return e
}

// waitBlocked waits until n backends of the test's database wait for a lock.
func waitBlocked(tb testing.TB, db *sqldb.DB, n int) {
	tb.Helper()
	waittest.Eventually(tb, "a backend waits for a lock", func() bool {
		var blocked int
		err := db.GetContext(tb.Context(), &blocked, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
		return err == nil && blocked == n
	})
}

// hold locks a counter in a transaction of its own until the returned function
// is called, which commits.
func hold(tb testing.TB, db *sqldb.DB, id string) (release func()) {
	tb.Helper()
	locked, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.InTx(context.WithoutCancel(tb.Context()), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := add(ctx, tx, id, 0); err != nil {
				return err
			}
			close(locked)
			<-free
			return nil
		})
	}()
	select {
	case <-locked:
	case err := <-done:
		tb.Fatalf("hold %s: %v", id, err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		close(free)
		if err := <-done; err != nil {
			tb.Errorf("hold %s: %v", id, err)
		}
	}
	tb.Cleanup(release)
	return release
}
