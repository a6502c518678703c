package sqldb_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// change adapts the settings of a test's pool.
type change func(*sqldb.Settings)

// bothEngines returns the engines of the tests' pools.
func bothEngines() []sqldb.Engine { return []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL} }

// open opens a pool that is closed when the test ends.
func open(t *testing.T, url string, changes ...change) *sqldb.DB {
	t.Helper()
	settings := sqldb.Settings{URL: url, Engines: bothEngines(), ApplicationName: "sqldb-test"}
	for _, c := range changes {
		c(&settings)
	}
	return apptest.Pool(t, settings, nil)
}

// counterDatabase makes a database with two counters, a and b, at 0.
func counterDatabase(t *testing.T) string {
	t.Helper()
	url := dbtest.Empty(t)
	execute(t, open(t, url), `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000));
		INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// mariaCounters makes a MariaDB database with two counters, a and b, at 0.
func mariaCounters(t *testing.T) string {
	t.Helper()
	url := dbtest.EmptyMariaDB(t)
	db := open(t, url)
	execute(t, db, `CREATE TABLE counter (id varchar(20) PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000))`)
	execute(t, db, `INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// counters returns what makes a database of each engine with two counters at 0.
func counters() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{"postgresql": counterDatabase, "mysql": mariaCounters}
}

// briefly shortens the lock timeout: to 50 ms, or to the second that is MySQL's shortest.
func briefly(s *sqldb.Settings) {
	s.LockTimeout, s.StatementTimeout = 50*time.Millisecond, 3*time.Second
}

// execute runs statements without parameters.
func execute(t *testing.T, db *sqldb.DB, statements string) {
	t.Helper()
	if err := execTx(t.Context(), db, statements); err != nil {
		t.Fatalf("execute: %v", err)
	}
}

// value returns a counter's value.
func value(t *testing.T, db *sqldb.DB, id string) int64 {
	t.Helper()
	var n int64
	if err := db.GetContext(t.Context(), &n, `SELECT n FROM counter WHERE id = '`+id+`'`); err != nil {
		t.Fatalf("read counter %s: %v", id, err)
	}
	return n
}

// wantValue checks a counter's value.
func wantValue(t *testing.T, db *sqldb.DB, id string, want int64) {
	t.Helper()
	if n := value(t, db, id); n != want {
		t.Errorf("%s = %d, want %d", id, n, want)
	}
}

// add adds to a counter inside a transaction, on either engine.
func add(ctx context.Context, tx *sqlx.Tx, id string, n int64) error {
	_, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE counter SET n = n + ? WHERE id = ?`), n, id)
	return err
}

// execTx runs one statement in a transaction.
func execTx(ctx context.Context, db *sqldb.DB, query string, args ...any) error {
	return db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// execOnce runs one statement by Once.
func execOnce(ctx context.Context, db *sqldb.DB, query string, args ...any) error {
	_, err := db.Once().ExecContext(ctx, query, args...)
	return err
}

const oneUpdate = `UPDATE counter SET n = n + $1 WHERE id = 'a'`

// increment adds 1 to a by a single statement.
func increment(ctx context.Context, db *sqldb.DB, opts ...sqldb.Option) error {
	once := db.Once(opts...)
	_, err := once.ExecContext(ctx, once.Rebind(`UPDATE counter SET n = n + ? WHERE id = 'a'`), 1)
	return err
}

// incrementTx returns a call that adds 1 to a in a transaction.
func incrementTx(db *sqldb.DB, opts ...sqldb.Option) func(context.Context) error {
	return func(ctx context.Context) error {
		return db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return add(ctx, tx, "a", 1) }, opts...)
	}
}

// incrementOnce returns a call that adds 1 to a by a single statement.
func incrementOnce(db *sqldb.DB) func(context.Context) error {
	return func(ctx context.Context) error { return increment(ctx, db) }
}

// resolvedTx returns a call that adds 1 to a in a transaction, and looks at a when the answer was lost: the
// first time it cannot be reached, the second time it gives the answer, or the error.
func resolvedTx(err error) func(db *sqldb.DB) func(context.Context) error {
	return func(db *sqldb.DB) func(context.Context) error {
		return resolved(db, incrementTx(db, sqldb.Proven()), err)
	}
}

// resolvedOnce returns a call that adds 1 to a by a single statement, and resolves a lost answer as resolvedTx does.
func resolvedOnce(db *sqldb.DB) func(context.Context) error {
	return resolved(db, func(ctx context.Context) error { return increment(ctx, db, sqldb.Proven()) }, nil)
}

func resolved(db *sqldb.DB, change func(context.Context) error, err error) func(context.Context) error {
	asked := 0
	return func(ctx context.Context) error {
		lost := change(ctx)
		if outcome, ours := sqldb.OutcomeOf(lost); !ours || outcome != sqldb.Unknown {
			return lost
		}
		return db.Resolve(ctx, lost, func(ctx context.Context) (bool, error) {
			if asked++; asked == 1 {
				return false, &sqldb.Error{Outcome: sqldb.NotApplied, Reason: sqldb.Connection}
			}
			var n int
			err := errors.Join(err, db.GetContext(ctx, &n, `SELECT n FROM counter WHERE id = 'a'`))
			return n == 1, err
		})
	}
}

// warnings returns what Warn logs for a pool with these settings.
func warnings(t *testing.T, s sqldb.Settings) string {
	t.Helper()
	var log strings.Builder
	s.Engines = bothEngines()
	db, err := sqldb.Open(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Warn(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

// wantError checks the outcome and the reason of an error.
func wantError(t *testing.T, err error, outcome sqldb.Outcome, reason sqldb.Reason) {
	t.Helper()
	if e := classified(t, err); e.Outcome != outcome || e.Reason != reason {
		t.Fatalf("got %q, want %s, %s", err, outcome, reason)
	}
}

// classified returns the *sqldb.Error in err.
func classified(t *testing.T, err error) *sqldb.Error {
	t.Helper()
	e, ok := errors.AsType[*sqldb.Error](err)
	if !ok {
		t.Fatalf("got %v (%T), want an *sqldb.Error", err, err)
	}
	return e
}

// waitBlocked waits until n backends of the test's database wait for a lock.
func waitBlocked(t *testing.T, db *sqldb.DB, n int) {
	t.Helper()
	waittest.Eventually(t, "a backend waits for a lock", func() bool {
		var blocked int
		err := db.GetContext(t.Context(), &blocked, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
		return err == nil && blocked == n
	})
}

// hold locks a counter in a transaction of its own until the returned function is called, which commits, or the test
// ends.
func hold(t *testing.T, db *sqldb.DB, id string) (release func()) {
	t.Helper()
	return apptest.Hold(t, db.Pool(), `UPDATE counter SET n = n + 0 WHERE id = '`+id+`'`).Commit
}
