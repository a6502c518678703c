package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

func TestOnceReturnsRows(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	var n int64
	err := db.Once().GetContext(t.Context(), &n, `UPDATE counter SET n = n + 1 WHERE id = 'a' RETURNING n`)
	if err != nil || n != 1 || value(t, db, "a") != 1 {
		t.Fatalf("n = %d, %v", n, err)
	}
	err = db.Once().GetContext(t.Context(), &n, `UPDATE counter SET n = n + 1 WHERE id = 'missing' RETURNING n`)
	if err != sql.ErrNoRows { //nolint:errorlint // unchanged means identical
		t.Fatalf("got %v", err)
	}
}

// TestAnswersOfTheServerAreCertain: an error of the server undoes the one statement, so
// nothing was applied. The text of the error holds no value.
func TestAnswersOfTheServerAreCertain(t *testing.T) {
	t.Parallel()
	for engine, database := range counters() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			db := open(t, url, func(s *sqldb.Settings) { s.StatementTimeout = 400 * time.Millisecond })
			primary := map[string]string{"postgresql": "counter_pkey", "mysql": "PRIMARY"}[engine]
			// MySQL answers a bare SELECT sleep(5) that it cuts off without an error.
			sleep := map[string]string{
				"postgresql": "SELECT pg_sleep(5)", "mysql": "SELECT n FROM counter WHERE sleep(5)",
			}[engine]
			for statement, want := range map[string]struct {
				reason     sqldb.Reason
				constraint string
			}{
				`INSERT INTO counter VALUES ('a', 4)`:                                {sqldb.Constraint, primary},
				`UPDATE counter SET n = 2000000000`:                                  {sqldb.Constraint, "*"},
				`INSERT INTO counter (id, n) VALUES ('secret', 9223372036854775808)`: {sqldb.Data, ""},
				`INSERT INTO nowhere VALUES (1)`:                                     {sqldb.Other, ""},
				`SELECT secret FROM`:                                                 {sqldb.Other, ""},
				sleep:                                                                {sqldb.Timeout, ""},
			} {
				var err error
				if strings.HasPrefix(statement, "SELECT") {
					err = db.Once().SelectContext(t.Context(), new([]any), statement)
				} else {
					err = execOnce(t.Context(), db, statement)
				}
				wantError(t, err, sqldb.NotApplied, want.reason)
				if e := classified(t, err); want.constraint != "*" && e.Constraint != want.constraint {
					t.Errorf("%s: the constraint is %q", statement, e.Constraint)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the text of the error holds a value: %v", err)
				}
			}
		})
	}
}

// TestOnceErrorAfterRows: the server sends rows first and fails in the end. The
// rows must not count as success.
func TestOnceErrorAfterRows(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	var ids []string
	err := db.Once().SelectContext(t.Context(), &ids,
		`SELECT repeat('x', 9000) || 1 / (3 - i) FROM generate_series(1, $1::int) i`, 3)
	wantError(t, err, sqldb.NotApplied, sqldb.Data)
}

// TestOnceOutlivesItsCaller: a cancelled context does not make the outcome of a
// running statement unknown.
func TestOnceOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	release := hold(t, db, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- increment(ctx, db) }()
	waitBlocked(t, db, 1)
	cancel()
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 1)
}

// TestOnceNearDeadlineIsCertain: a deadline before the server's timeouts makes
// the driver cancel, and the server's 57014 proves that nothing was applied.
func TestOnceNearDeadlineIsCertain(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	release := hold(t, db, "a")
	if err := db.Ping(t.Context()); err != nil { // connecting must not use up the time
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := increment(ctx, db)
	wantError(t, err, sqldb.NotApplied, sqldb.Timeout)
	if sqldb.SQLState(err) != "57014" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	release()
	wantValue(t, db, "a", 0)
}

// TestPoolExhausted: the time runs out in the queue for a connection.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t), func(s *sqldb.Settings) { s.MaxOpenConns = 1 })
	hold(t, db, "b")
	for name, call := range map[string]func(context.Context) error{
		"Once": func(ctx context.Context) error { return increment(ctx, db) },
		"InTx": func(ctx context.Context) error {
			return db.InTx(ctx, func(context.Context, *sqlx.Tx) error { return nil })
		},
		"Ping":       db.Ping,
		"GetContext": func(ctx context.Context) error { return db.GetContext(ctx, new(int), `SELECT 1`) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		err := call(ctx)
		cancel()
		e, ok := errors.AsType[*sqldb.Error](err)
		if !ok || e.Outcome != sqldb.NotApplied || e.Reason != sqldb.Overloaded {
			t.Errorf("%s: got %v", name, err)
		}
		if stats := db.Stats(); stats.InUse != 1 || stats.MaxOpenConnections != 1 {
			t.Errorf("%s: the pool has %+v", name, stats)
		}
	}
}

// TestDriverRefusalDoesNotBreakThePool: lib/pq refuses a call with too many
// parameters and leaves its connection marked as busy.
func TestDriverRefusalDoesNotBreakThePool(t *testing.T) {
	t.Parallel()
	// The settings for a pooler, because there no statement is prepared first.
	db := open(t, counterDatabase(t)+"&binary_parameters=yes", func(s *sqldb.Settings) {
		s.MaxOpenConns, s.Pooler = 1, sqldb.PoolerTransaction
	})
	args := make([]any, 65536)
	for i := range args {
		args[i] = i
	}
	err := execOnce(t.Context(), db, `SELECT 1`, args...)
	if err == nil || !strings.Contains(err.Error(), "65536 parameters") {
		t.Fatalf("got %v", err)
	}
	if err := increment(t.Context(), db); err != nil {
		t.Fatalf("the next call: %v", err)
	}
}
