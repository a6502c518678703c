package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// cluster is a database with the distributable schema, and the proxies before the servers that have the pots.
type cluster struct {
	dsn     string
	db      *sqlx.DB
	servers []*faultproxy.Proxy
}

// clusterTests returns the tests that run on Citus, and on one server, where the statements for Citus are valid too:
// there they run on any machine, and the replies that get lost are those to the replicas.
func clusterTests() map[string]func(t *testing.T, c cluster) {
	return map[string]func(t *testing.T, c cluster){
		"suite": passSuite, "lossy": changeWhileRepliesGetLost, "leases": leasePots, "fence": refuseStaleHolders,
		"resolve": resolveByThePot, "lost replies": loseReplies, "create": createOnce, "unfinished": finishCreations,
	}
}

// TestPotsOnCitus runs the tests one after the other on one cluster.
//
//nolint:paralleltest,tparallel // the subtests share the cluster
func TestPotsOnCitus(t *testing.T) {
	t.Parallel()
	dsn, workers := apptest.Citus(t, Migrations())
	c := cluster{dsn, dbtest.Dial(t, dsn), workers}
	t.Run("statements", func(t *testing.T) { planStatements(t, c) })
	for name, test := range clusterTests() {
		t.Run(name, func(t *testing.T) {
			c.clear(t)
			test(t, c)
		})
	}
}

// TestPotsOnShardsOfOneServer runs the tests of TestPotsOnCitus, each on a database of its own.
func TestPotsOnShardsOfOneServer(t *testing.T) {
	t.Parallel()
	for name, test := range clusterTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, server := apptest.OneServer(t, Migrations(), distributable()...)
			test(t, cluster{dsn, dbtest.Dial(t, dsn), []*faultproxy.Proxy{server}})
		})
	}
}

// clear removes all pots.
func (c cluster) clear(t *testing.T) {
	t.Helper()
	apptest.Execute(t, c.db, `TRUNCATE pyggpot.pot`, `TRUNCATE pyggpot.pot_name`)
}

// open opens a replica's store on the cluster.
func (c cluster) open(t *testing.T, change ...func(*Options)) replica {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{
		Lock: "pot", Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
	})
	const lockTimeout, conns = 5 * time.Second, 8
	db := apptest.Pool(t, sqldb.Settings{
		URL: c.dsn, MaxOpenConns: conns, LockTimeout: lockTimeout, StatementTimeout: 3 * lockTimeout,
		ApplicationName: "pyggpot", Contention: seen.Metrics, Session: Session(), Cluster: sqldb.ClusterCitus,
	}, prometheus.NewRegistry())
	o := Options{TTL: 10 * time.Second, Retries: 2000, RetryWait: 5 * time.Millisecond, MaxOpenConns: conns}
	o.Limits = coalesce.Limits{
		Queue: 10_000, LockTimeout: lockTimeout, StatementTimeout: 3 * lockTimeout, Contention: seen.Metrics,
	}
	for _, change := range change {
		change(&o)
	}
	s, err := New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return replica{s, seen}
}

// cut cuts the next reply to a statement with a text, or that statement, on the way of each server.
func (c cluster) cut(when faultproxy.When, text string) {
	for _, server := range c.servers {
		server.Cut(when, faultproxy.RST, faultproxy.Matching(text))
	}
}

// stopCutting returns how many connections were cut since the last call, and fails the test when none was.
func (c cluster) stopCutting(t *testing.T, before int) int {
	t.Helper()
	cuts := -before
	for _, server := range c.servers {
		server.StopCutting()
		cuts += server.Cuts()
	}
	if cuts == 0 {
		t.Error("no reply was cut: the test proved nothing")
	}
	return cuts
}

// cuts returns how many connections were cut.
func (c cluster) cuts() (n int) {
	for _, server := range c.servers {
		n += server.Cuts()
	}
	return n
}

// wantTotal tests the number of all coins, and that each pot has the sum of its kinds and no lease.
func (c cluster) wantTotal(t *testing.T, coins int64) {
	t.Helper()
	var pots []struct {
		Coins  int64 `db:"coins"`
		Sum    int64 `db:"sum"`
		Leased bool  `db:"leased"`
	}
	if err := c.db.SelectContext(t.Context(), &pots, `SELECT coins, lock IS NOT NULL AS leased,
		(SELECT coalesce(sum(n), 0) FROM unnest(counts) AS n) AS sum FROM pyggpot.pot`); err != nil {
		t.Fatal(err)
	}
	for _, p := range pots {
		if coins -= p.Coins; p.Coins != p.Sum || p.Leased {
			t.Errorf("a pot has %+v", p)
		}
	}
	if coins != 0 {
		t.Errorf("%d coins are missing", coins)
	}
}

// oneAtATime gives the subtests of a suite, which run at once, the cluster one after the other, each without pots.
func (c cluster) oneAtATime() func(t *testing.T) pot.Repository {
	var turn sync.Mutex
	return func(t *testing.T) pot.Repository {
		t.Helper()
		turn.Lock()
		t.Cleanup(turn.Unlock)
		c.clear(t)
		r := &replicas{all: []replica{c.open(t), c.open(t)}}
		r.replica = r.all[0]
		t.Cleanup(func() {
			var leased int
			const query = `SELECT count(*) FROM pyggpot.pot WHERE lock IS NOT NULL`
			if err := c.db.GetContext(context.WithoutCancel(t.Context()), &leased, query); err != nil || leased != 0 {
				t.Errorf("%d leases (%v)", leased, err)
			}
		})
		return r
	}
}
