package sqldb_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// uses returns each use of a pool.
func uses(db *sqldb.DB) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Once": incrementOnce(db), "InTx": incrementTx(db),
		"a read": func(ctx context.Context) error {
			return db.GetContext(ctx, new(int), `SELECT n FROM counter WHERE id = $1`, "a")
		},
	}
}

// load increments the counter b by eight callers until the returned function is called, and counts the outcomes.
func load(t *testing.T, db *sqldb.DB) (counts *tally, stop func()) {
	t.Helper()
	counts = new(tally)
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for !stopped.Load() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
				if i%2 == 0 {
					counts.count(t, execOnce(ctx, db, `UPDATE counter SET n = n + 1 WHERE id = 'b'`))
				} else {
					counts.count(t, db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
						return add(ctx, tx, "b", 1)
					}))
				}
				cancel()
			}
		})
	}
	stop = sync.OnceFunc(func() { stopped.Store(true); wg.Wait() })
	t.Cleanup(stop)
	return counts, stop
}

// TestFailover: a synchronous standby takes the place of a primary that is killed, under load. Pools with both hosts in
// their URL, and with one name that leads to the standby before it is promoted, serve again by themselves. Until then
// all is refused, and surely not applied; nothing that was acknowledged is lost.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, first := counterServer(t)
	standby := dbtest.Standby(t, primary)
	dbtest.WaitForStandby(t, primary)
	name := faultproxy.New(t, first)
	db := open(t, name.DSN(first), func(s *sqldb.Settings) { s.MaxOpenConns = 2 })
	anywhere := open(t, name.DSN(first)+"&target_session_attrs=any", func(s *sqldb.Settings) { s.MaxOpenConns = 1 })
	counts, stop := load(t, open(t, dbtest.BothHosts(t, primary, standby)))
	progress := func(what string) {
		before := counts.acknowledged.Load()
		waittest.Eventually(t, what, func() bool { return counts.acknowledged.Load() > before+20 })
	}
	progress("increments on the primary")
	for name, use := range uses(db) {
		if err := use(t.Context()); err != nil {
			t.Errorf("%s on the primary: %v", name, err)
		}
	}

	if err := primary.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	name.Redirect(standby.Address())
	refused := counts.refused.Load()
	waittest.Eventually(t, "calls are refused", func() bool { return counts.refused.Load() > refused })
	several := open(t, dbtest.BothHosts(t, primary, standby))
	for _, pool := range []*sqldb.DB{db, several} {
		for name, use := range uses(pool) {
			err := use(t.Context())
			p := sqldb.Problem(err)
			if p == nil || p.Kind().Code() != "DATABASE_UNAVAILABLE" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s on the standby: %q", name, err)
			}
		}
	}
	for name, use := range uses(anywhere) {
		if name == "a read" {
			continue // may be what the primary has replaced, as the URL accepts
		}
		if err := anywhere.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantError(t, use(t.Context()), sqldb.NotApplied, sqldb.Connection)
		if n := anywhere.Stats().OpenConnections; n != 0 {
			t.Errorf("%s: the session stays in the pool", name)
		}
	}

	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*sqldb.DB{db, anywhere} {
		for name, use := range uses(pool) {
			if err := use(t.Context()); err != nil {
				t.Errorf("%s on the promoted standby: %v", name, err)
			}
		}
	}
	progress("increments on the promoted standby")
	stop()
	wantValue(t, db, "a", 6)
	n, low, unknown := value(t, db, "b"), counts.acknowledged.Load(), counts.unknown.Load()
	t.Logf("value %d, acknowledged %d, unknown %d, refused %d", n, low, unknown, counts.refused.Load())
	if n < low || n > low+unknown {
		t.Errorf("n = %d, want %d..%d", n, low, low+unknown)
	}
}

// makeReadOnly sets default_transaction_read_only of the database for sessions to come.
func makeReadOnly(t *testing.T, admin *sqldb.DB, value string) {
	t.Helper()
	execute(t, admin, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+value+`', current_database());
	END $$`)
}

// TestASessionThatBecomesReadOnly: a primary that an operator makes read only answers with 25006 on the sessions that
// are open. They are closed.
func TestASessionThatBecomesReadOnly(t *testing.T) {
	t.Parallel()
	alone := func(s *sqldb.Settings) { s.MaxOpenConns = 1 }
	for dsn, statement := range map[string]string{
		counterDatabase(t): `SET default_transaction_read_only = on`,
		mariaCounters(t):   `SET SESSION TRANSACTION READ ONLY`,
	} {
		db := open(t, dsn, alone)
		if err := execOnce(t.Context(), db, statement); err != nil {
			t.Fatal(err)
		}
		wantError(t, increment(t.Context(), db), sqldb.NotApplied, sqldb.Connection)
		if n := db.Stats().OpenConnections; n != 0 {
			t.Errorf("%d sessions stay in the pool", n)
		}
		if err := increment(t.Context(), db); err != nil {
			t.Errorf("the next session: %v", err)
		}
	}
}

// TestAServerThatIsReadOnly: a pool accepts no session on it.
func TestAServerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	dsn := counterDatabase(t)
	admin := open(t, dsn, func(s *sqldb.Settings) { s.MaxOpenConns = 1 })
	wantValue(t, admin, "a", 0)
	makeReadOnly(t, admin, "on")
	other := open(t, dsn)
	for name, use := range uses(other) {
		if p := sqldb.Problem(use(t.Context())); p == nil || p.Kind().Code() != "DATABASE_UNAVAILABLE" {
			t.Errorf("%s: %v", name, p)
		}
	}
	makeReadOnly(t, admin, "off")
	wantValue(t, other, "a", 0)
}

// TestPoolerWhoseFirstServerWasReadOnly: PgBouncer tells every client what its first server said of itself, long after
// that one takes changes. A pool behind it does not ask.
func TestPoolerWhoseFirstServerWasReadOnly(t *testing.T) {
	t.Parallel()
	dsn := counterDatabase(t)
	admin := open(t, dsn, func(s *sqldb.Settings) { s.MaxOpenConns, s.ApplicationName = 1, "admin" })
	wantValue(t, admin, "a", 0)
	makeReadOnly(t, admin, "on")
	db := pooled(t, dsn)
	for range 2 {
		wantError(t, increment(t.Context(), db), sqldb.NotApplied, sqldb.Connection)
	}
	makeReadOnly(t, admin, "off")
	execute(t, admin, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	waittest.Eventually(t, "the pool serves", func() bool { return increment(t.Context(), db) == nil })
	wantValue(t, admin, "a", 1)
}
