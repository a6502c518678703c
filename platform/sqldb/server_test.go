package sqldb_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
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

// TestServerRestarts: the server is killed and started again twice under load.
// Every call returns, the value fits what was acknowledged, and the pool
// recovers by itself.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server, url := counterServer(t)
	db := open(t, url)
	var counts tally
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		call := incrementOnce(db)
		if i%2 == 1 {
			call = incrementTx(db)
		}
		wg.Go(func() {
			for !stopped.Load() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
				start := time.Now()
				counts.count(t, call(ctx))
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("a call took %s", took)
				}
				cancel()
			}
		})
	}
	progress := func(what string) {
		before := counts.acknowledged.Load()
		waittest.Eventually(t, what, func() bool { return counts.acknowledged.Load() > before+20 })
	}
	progress("increments before")
	crash := func() error { // the sessions end without a message
		err := syscall.Kill(server.PID(), syscall.SIGKILL)
		<-server.Done()
		return err
	}
	for _, end := range []func() error{server.Kill, crash} {
		if err := end(); err != nil {
			t.Error(err)
		}
		refused := counts.refused.Load()
		waittest.Eventually(t, "calls are refused", func() bool { return counts.refused.Load() > refused })
		if err := server.Restart(t.Context()); err != nil {
			t.Error(err)
			break
		}
		progress("increments after the restart")
	}
	stopped.Store(true)
	wg.Wait()
	n, low := value(t, db, "a"), counts.acknowledged.Load()
	t.Logf("value %d, acknowledged %d, unknown %d, refused %d", n, low, counts.unknown.Load(), counts.refused.Load())
	if n < low || n > low+counts.unknown.Load() {
		t.Errorf("n = %d, want %d..%d", n, low, low+counts.unknown.Load())
	}
}

// TestSilentServer: a server that takes connections and says nothing is unavailable, to a caller
// without a deadline too.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	waittest.Together(t, 2, func(i int) error {
		url := []string{"postgres://app@%s/x?sslmode=disable", "mysql://app@%s/x?tls=false"}[i]
		db := open(t, fmt.Sprintf(url, listener.Addr()))
		start := time.Now()
		err := db.Ping(context.WithoutCancel(t.Context()))
		took, p := time.Since(start), sqldb.Problem(err)
		if p == nil || p.Kind().Code() != "DATABASE_UNAVAILABLE" || took > 15*time.Second {
			return fmt.Errorf("%s: after %s: %w", url, took, err)
		}
		return nil
	})
}

// TestTooManyConnections: 53300 is OVERLOADED, not DATABASE_UNAVAILABLE.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	direct := open(t, url)
	role, limited := plainRole(t, direct, url)
	execute(t, direct, "ALTER ROLE "+role+" CONNECTION LIMIT 1")
	hold(t, open(t, limited), "a") // uses the role's only connection
	err := open(t, limited).Ping(t.Context())
	wantError(t, err, sqldb.NotApplied, sqldb.Overloaded)
	if p := sqldb.Problem(err); sqldb.SQLState(err) != "53300" || p == nil || p.Kind().Code() != "OVERLOADED" {
		t.Errorf("got %v, problem %v", err, p)
	}
}

func TestWarn(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	direct := open(t, url)
	got := warnings(t, sqldb.Settings{URL: url + "&synchronous_commit=off&default_transaction_isolation=serializable"})
	for _, want := range []string{
		"fsync=off", "full_page_writes=off", "synchronous_commit=off", "superuser", "another isolation level",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	role, plain := plainRole(t, direct, url)
	plain += "&binary_parameters=yes"
	got = warnings(t, sqldb.Settings{URL: plain, Pooler: sqldb.PoolerTransaction})
	if strings.Contains(got, "superuser") || !strings.Contains(got, "client_connection_check_interval is 0") ||
		!strings.Contains(got, "statement_timeout is 0") {
		t.Errorf("got %q", got)
	}
	const noLockTimeout = "the role has no lock_timeout"
	onCluster := sqldb.Settings{URL: plain, Cluster: sqldb.ClusterCitus}
	if got = warnings(t, onCluster); !strings.Contains(got, noLockTimeout) {
		t.Errorf("on Citus: %q", got)
	}
	execute(t, direct, "ALTER ROLE "+role+" SET lock_timeout = '5s'")
	if got = warnings(t, onCluster); strings.Contains(got, noLockTimeout) {
		t.Errorf("on Citus, once the role has one: %q", got)
	}
	got = warnings(t, sqldb.Settings{URL: dbtest.EmptyMariaDB(t)})
	if !strings.Contains(got, "another innodb_flush_log_at_trx_commit than 1") || !strings.Contains(got, "superuser") {
		t.Errorf("got %q", got)
	}
	if err := open(t, "postgres://app@127.0.0.1:1/x?sslmode=disable").Warn(t.Context()); err == nil {
		t.Error("an unreachable database gives no error")
	}
}

// TestWarnOfSize: a pool that is larger than what the server has left is named in one line, and one that fits is not.
func TestWarnOfSize(t *testing.T) {
	t.Parallel()
	// PostgreSQL keeps three of ten for superusers, and this pool has one.
	url := dbtest.Server(t, map[string]string{"max_connections": "10"}).URL("postgres")
	other := open(t, url)
	execute(t, other, "CREATE TABLE counter (n bigint)")
	_, plain := plainRole(t, other, url)
	const line = "the pool does not fit the server"
	sized := func(s sqldb.Settings) string {
		waittest.Eventually(t, "the sessions before have ended", func() bool {
			var n int
			err := other.GetContext(t.Context(), &n,
				"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
			return err == nil && n == 1
		})
		return warnings(t, s)
	}
	if got := sized(sqldb.Settings{URL: plain, MaxOpenConns: 6}); strings.Contains(got, line) {
		t.Errorf("6 connections: %q", got)
	}
	const want = "may open 7 connections, and of the 7 that max_connections leaves to it and to others 1 are in use"
	if got := sized(sqldb.Settings{URL: plain, MaxOpenConns: 7}); strings.Count(got, line) != 1 ||
		!strings.Contains(got, want) {
		t.Errorf("7 connections: %q", got)
	}
	pooled := sqldb.Settings{URL: plain + "&binary_parameters=yes", MaxOpenConns: 800, Pooler: sqldb.PoolerTransaction}
	if got := sized(pooled); strings.Contains(got, line) {
		t.Errorf("behind a pooler: %q", got)
	}
	if got := warnings(t, sqldb.Settings{URL: dbtest.EmptyMariaDB(t), MaxOpenConns: 1_000_000}); !strings.Contains(got,
		"may open 1000000 connections") {
		t.Errorf("MariaDB: %q", got)
	}
}
