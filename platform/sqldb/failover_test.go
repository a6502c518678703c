package sqldb_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// counterServer starts a server of the test's own with the counters a and b.
func counterServer(t *testing.T) (server *localpg.Server, url string) {
	t.Helper()
	// What was acknowledged must survive, so the server must really write.
	server = dbtest.Server(t, map[string]string{"fsync": "on", "full_page_writes": "on"})
	url = server.URL("postgres")
	db := open(t, url)
	execute(t, db, `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL);
		INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return server, url
}

// tally counts the outcomes of concurrent increments.
type tally struct{ acknowledged, unknown, refused atomic.Int64 }

func (c *tally) count(t *testing.T, err error) {
	t.Helper()
	outcome, classified := sqldb.OutcomeOf(err)
	switch {
	case err == nil:
		c.acknowledged.Add(1)
	case !classified:
		t.Errorf("an error without an outcome: %v", err)
	case outcome == sqldb.Unknown:
		c.unknown.Add(1)
	default:
		c.refused.Add(1)
		if sqldb.Problem(err) == nil {
			t.Errorf("an error without a problem: %v", err)
		}
	}
}

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
		call := execTx
		if i%2 == 0 {
			call = execOnce
		}
		wg.Go(func() {
			for !stopped.Load() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
				start := time.Now()
				counts.count(t, call(ctx, db, `UPDATE counter SET n = n + 1 WHERE id = 'b'`))
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("a call took %s", took)
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
