package apptest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Pool opens a service's pool until the test ends. Its metrics go to reg.
func Pool(t *testing.T, s sqldb.Settings, reg prometheus.Registerer) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), s, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// CloseAtEnd calls stop, such as the Close of a store, when the test ends.
func CloseAtEnd(t *testing.T, stop func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// Database is a connection of a test, or a service's pool.
type Database interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// One returns the only row of a query.
func One[T any](t *testing.T, db Database, query string, args ...any) (v T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &v, query, args...); err != nil {
		t.Fatal(err)
	}
	return v
}

// Plan returns the lines of an EXPLAIN.
func Plan(t *testing.T, db Database, explain string, args ...any) string {
	t.Helper()
	var lines []string
	if err := db.SelectContext(t.Context(), &lines, explain, args...); err != nil {
		t.Fatalf("%s: %v", explain, err)
	}
	return strings.Join(lines, "\n")
}

// Execute runs statements in one transaction, without the service.
func Execute(t *testing.T, db *sqlx.DB, statements ...string) {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, statement := range statements {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(errors.Join(err, tx.Rollback()))
		}
	}

	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Holder is another transaction. It holds its locks until Commit, Rollback or the end of the test.
type Holder struct {
	t  *testing.T
	tx *sqlx.Tx
}

// Hold begins a transaction and executes a statement in it.
func Hold(t *testing.T, db *sqlx.DB, statement string, args ...any) Holder {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := Holder{t, tx}
	h.Execute(statement, args...)
	return h
}

// Execute executes another statement of the transaction.
func (h Holder) Execute(statement string, args ...any) {
	h.t.Helper()
	if _, err := h.tx.ExecContext(h.t.Context(), statement, args...); err != nil {
		h.t.Fatal(err)
	}
}

// Commit commits the transaction.
func (h Holder) Commit() {
	h.t.Helper()
	if err := h.tx.Commit(); err != nil {
		h.t.Fatal(err)
	}
}

// Rollback rolls the transaction back.
func (h Holder) Rollback() {
	h.t.Helper()
	if err := h.tx.Rollback(); err != nil {
		h.t.Fatal(err)
	}
}

// WaitForBlocked waits until n sessions of the database wait for locks.
func WaitForBlocked(t *testing.T, db *sqlx.DB, n int) {
	t.Helper()
	waittest.Eventually(t, "sessions wait for a lock", func() bool {
		var blocked int
		if err := db.GetContext(t.Context(), &blocked, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`); err != nil {
			t.Fatal(err)
		}
		return blocked >= n
	})
}

// WatchDeadlocks makes the server check for deadlocks every 5 ms, and fails the test if there was one. Call it before
// opening any other connection to the database.
func WatchDeadlocks(t *testing.T, dsn string) {
	t.Helper()
	db := dbtest.Dial(t, dsn)
	Execute(t, db, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''5ms''', current_database()); END $$`)

	t.Cleanup(func() {
		var seen struct{ Deadlocks, Sessions int }
		// A session reports its deadlocks when it ends, so wait until only this one is left.
		waittest.Eventually(t, "the other sessions have ended", func() bool {
			err := db.GetContext(context.WithoutCancel(t.Context()), &seen, `SELECT deadlocks, numbackends AS sessions
				FROM pg_stat_database WHERE datname = current_database()`)
			return err == nil && seen.Sessions <= 1
		})

		if seen.Deadlocks > 0 {
			t.Errorf("%d deadlocks", seen.Deadlocks)
		}
	})
}
