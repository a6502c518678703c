package sqldb_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// change adapts the settings of a test's pool.
type change func(*sqldb.Settings)

// bothEngines returns the engines of the tests' pools.
func bothEngines() []sqldb.Engine { return []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL} }

// open opens a pool that is closed when the test ends.
func open(tb testing.TB, url string, changes ...change) *sqldb.DB {
	tb.Helper()
	settings := sqldb.Settings{URL: url, Engines: bothEngines(), ApplicationName: "sqldb-test"}
	for _, c := range changes {
		c(&settings)
	}
	return openWith(tb, settings, nil)
}

// openWith opens a pool whose metrics go to reg, which may be nil.
func openWith(tb testing.TB, settings sqldb.Settings, reg prometheus.Registerer) *sqldb.DB {
	tb.Helper()
	db, err := sqldb.Open(tb.Context(), settings, slog.New(slog.DiscardHandler), reg)
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

// counterDatabase makes a database with two counters, a and b, at 0.
func counterDatabase(tb testing.TB) string {
	tb.Helper()
	url := dbtest.Empty(tb)
	execute(tb, open(tb, url), `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000));
		INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// mariaCounters makes a MariaDB database with two counters, a and b, at 0.
func mariaCounters(tb testing.TB) string {
	tb.Helper()
	url := dbtest.EmptyMariaDB(tb)
	db := open(tb, url)
	execute(tb, db, `CREATE TABLE counter (id varchar(20) PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000))`)
	execute(tb, db, `INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// counters returns what makes a database of each engine with two counters at 0.
func counters() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"postgresql": counterDatabase, "mysql": mariaCounters}
}

// briefly shortens the lock timeout: to 50 ms, or to the second that is MySQL's shortest.
func briefly(s *sqldb.Settings) {
	s.LockTimeout, s.StatementTimeout = 50*time.Millisecond, 3*time.Second
}

// execute runs statements without parameters.
func execute(tb testing.TB, db *sqldb.DB, statements string) {
	tb.Helper()
	if err := execTx(tb.Context(), db, statements); err != nil {
		tb.Fatalf("execute: %v", err)
	}
}

// value returns a counter's value.
func value(tb testing.TB, db *sqldb.DB, id string) int64 {
	tb.Helper()
	var n int64
	if err := db.GetContext(tb.Context(), &n, `SELECT n FROM counter WHERE id = '`+id+`'`); err != nil {
		tb.Fatalf("read counter %s: %v", id, err)
	}
	return n
}

// wantValue checks a counter's value.
func wantValue(tb testing.TB, db *sqldb.DB, id string, want int64) {
	tb.Helper()
	if n := value(tb, db, id); n != want {
		tb.Errorf("%s = %d, want %d", id, n, want)
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
	return db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, query, args...)
		return err
	})
}

const oneUpdate = `UPDATE counter SET n = n + $1 WHERE id = 'a'`

func increment(ctx context.Context, conn *sqlx.Conn) error {
	_, err := conn.ExecContext(ctx, conn.Rebind(`UPDATE counter SET n = n + ? WHERE id = 'a'`), 1)
	return err
}

// incrementTx returns a call that adds 1 to a in a transaction.
func incrementTx(db *sqldb.DB, opts ...sqldb.TxOption) func(context.Context) error {
	return func(ctx context.Context) error {
		return db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return add(ctx, tx, "a", 1) }, opts...)
	}
}

// incrementOnce returns a call that adds 1 to a by a single statement.
func incrementOnce(db *sqldb.DB) func(context.Context) error {
	return func(ctx context.Context) error { return db.Once(ctx, increment) }
}

// warnings returns what Warn logs for a pool with these settings.
func warnings(tb testing.TB, s sqldb.Settings) string {
	tb.Helper()
	var log strings.Builder
	s.Engines = bothEngines()
	db, err := sqldb.Open(tb.Context(), s, slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(db.Warn(tb.Context()), db.Close()); err != nil {
		tb.Fatal(err)
	}
	return log.String()
}

// wantError checks the outcome and the reason of an error.
func wantError(tb testing.TB, err error, outcome sqldb.Outcome, reason sqldb.Reason) {
	tb.Helper()
	if e := classified(tb, err); e.Outcome != outcome || e.Reason != reason {
		tb.Fatalf("got %q, want %s, %s", err, outcome, reason)
	}
}

// classified returns the *sqldb.Error in err.
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
	release = sync.OnceFunc(func() {
		close(free)
		if err := <-done; err != nil {
			tb.Errorf("hold %s: %v", id, err)
		}
	})
	tb.Cleanup(release)
	return release
}
