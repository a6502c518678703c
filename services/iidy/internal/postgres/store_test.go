package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second

// openStore opens one replica's store on a database.
func openStore(t *testing.T, dsn string, pooler sqldb.Pooler) *postgres.Store {
	t.Helper()
	s, _ := openSeen(t, dsn, pooler)
	return s
}

// openSeen opens one replica's store, whose lock metrics the test looks at.
func openSeen(t *testing.T, dsn string, pooler sqldb.Pooler) (*postgres.Store, *apptest.Contention) {
	t.Helper()
	return openWith(t, dsn, pooler, lockTimeout, statementTimeout)
}

// openPatient is openSeen with timeouts that no machine is too slow for: whoever waits for a held row waits until it is free.
func openPatient(t *testing.T, dsn string) (*postgres.Store, *apptest.Contention) {
	t.Helper()
	return openWith(t, dsn, sqldb.PoolerNone, 2*time.Minute, 3*time.Minute)
}

func openWith(
	t *testing.T, dsn string, pooler sqldb.Pooler, lockTimeout, statementTimeout time.Duration,
) (*postgres.Store, *apptest.Contention) {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{
		Lock: "item", Grouped: true, Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
	})
	reg := prometheus.NewRegistry()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout, ApplicationName: "iidy",
		Session:    postgres.Session(),
		Contention: seen.Metrics,
	}, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(db, postgres.Options{
		MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
		BulkTimeout: time.Minute, BulkStall: 2 * time.Second, BulkInFlight: 3, Contention: seen.Metrics,
	}, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.WithoutCancel(t.Context())), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, seen
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		watchDeadlocks(t, dsn)
		return openStore(t, dsn, sqldb.PoolerNone)
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 4), sqldb.PoolerTransaction)
	})
}

// watchDeadlocks makes the server look for deadlocks at once, and fails the test
// that had one. It comes before the store is opened.
func watchDeadlocks(t *testing.T, dsn string) {
	t.Helper()
	db := apptest.Open(t, dsn)
	name := one[string](t, db, `SELECT current_database()`)
	execute(t, db, `ALTER DATABASE "`+name+`" SET deadlock_timeout = '5ms'`)
	t.Cleanup(func() {
		// The statistics of a session are there when it has ended, or a little later.
		var n int64
		for range 20 {
			if err := db.GetContext(context.WithoutCancel(t.Context()), &n,
				`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); err != nil {
				t.Error(err)
				return
			}
			if n > 0 {
				t.Errorf("%d deadlocks", n)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func execute(t *testing.T, db *sqlx.DB, statement string, args ...any) {
	t.Helper()
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(errors.Join(err, conn.Close()))
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func one[T any](t *testing.T, db *sqlx.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &v, query, args...); err != nil {
		t.Fatal(err)
	}
	return v
}

// waitForBlocked waits until n backends wait for a lock.
func waitForBlocked(t *testing.T, db *sqlx.DB, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if one[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0
			AND datname = current_database()`) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d backends do not wait for a lock", n)
		}
	}
}

// hold runs a statement in a transaction of its own, which ends when the returned
// function is called.
func hold(t *testing.T, db *sqlx.DB, statement string, args ...any) (release func()) {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

const list attempt.List = "l"

func add(t *testing.T, s *postgres.Store, items ...attempt.Item) {
	t.Helper()
	if n, err := s.Many(t.Context(), attempt.Add, list, attempt.ItemsOf(items...), ""); err != nil || n != int64(len(items)) {
		t.Fatalf("added %d of %d: %v", n, len(items), err)
	}
}

// seed fills a list with items 0000000 to n-1 behind the service's back.
func seed(t *testing.T, db *sqlx.DB, list string, n int) {
	t.Helper()
	execute(t, db, `INSERT INTO iidy.lists (list, item)
		SELECT $1, lpad(i::text, 7, '0') FROM generate_series(0, $2::int - 1) AS i`, list, n)
}

// The largest count of attempts stays what it is, and does not spoil its batch.
func TestAttemptsDoNotOverflow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	add(t, s, "most", "other")
	execute(t, db, `UPDATE iidy.lists SET attempts = 9223372036854775806 WHERE item = 'most'`)
	ctx := t.Context()
	for range 2 {
		if n, err := s.Many(ctx, attempt.Increment, list, attempt.ItemsOf("most", "other"), ""); n != 2 || err != nil {
			t.Errorf("batch: %d %v", n, err)
		}
		if n, err := s.One(ctx, attempt.Increment, list, "most", ""); n != 1 || err != nil {
			t.Errorf("single: %d %v", n, err)
		}
	}
	for item, want := range map[attempt.Item]int64{"most": 9223372036854775807, "other": 2} {
		if got, err := s.Get(ctx, list, item); got != want || err != nil {
			t.Errorf("%s has %d attempts, want %d (%v)", item, got, want, err)
		}
	}
}

// What the domain bounds, the table bounds too.
func TestTableRefusesLongItems(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone)
	_, err := s.Many(t.Context(), attempt.Add, list, attempt.ItemsOf(attempt.Item(strings.Repeat("x", 2000))), "")
	var e *sqldb.Error
	if !errors.As(err, &e) || e.Constraint != "lists_length" {
		t.Errorf("got %v", err)
	}
}
