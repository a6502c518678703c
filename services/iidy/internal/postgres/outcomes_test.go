package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// Each change is made once and answered so, whether its request is lost or its answer: on one server, with the proxy
// before it, on a cluster, with the proxies between its nodes, and on one server that gets what is sent to a cluster.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	t.Run("OnOneServer", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		server := faultproxy.New(t, dsn)
		lostChanges(t, server.DSN(dsn), []*faultproxy.Proxy{server})
	})
	t.Run(onCitus[:len(onCitus)-1], func(t *testing.T) {
		t.Parallel()
		dsn, workers := apptest.Citus(t, postgres.Migrations())
		lostChanges(t, dsn, workers)
	})
	t.Run(onShards[:len(onShards)-1], func(t *testing.T) {
		t.Parallel()
		dsn, server := apptest.OneServer(t, postgres.Migrations())
		lostChanges(t, dsn, []*faultproxy.Proxy{server})
	})
}

// lostChange is a change of a list that counts want items.
type lostChange struct {
	change    func(list attempt.List) (int64, error)
	want      int64
	none      bool // the list is empty before
	statement bool // it is one statement, and no transaction
}

func lostChanges(t *testing.T, dsn string, proxies []*faultproxy.Proxy) {
	t.Helper()
	r := rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)
	ctx, three := t.Context(), attempt.ItemsOf("a", "b", "c")
	var held attempt.Claim
	changes := map[string]lostChange{
		"extend":  {change: func(l attempt.List) (int64, error) { return r.Extend(ctx, l, held, time.Hour) }, want: 3},
		"release": {change: func(l attempt.List) (int64, error) { return r.Release(ctx, l, held) }, want: 3},
		"abandon": {change: func(l attempt.List) (int64, error) { return r.Abandon(ctx, l, 1, held) }, want: 3},
		"fenced": {change: func(l attempt.List) (int64, error) {
			return r.Apply(ctx, attempt.Increment, l, "a", held)
		}, want: 1},
		"claim": {change: func(l attempt.List) (int64, error) {
			if n, err := r.Release(ctx, l, held); n != 3 || err != nil {
				return n, err
			}
			lease, err := r.Claim(ctx, l, 3, time.Hour)
			return int64(lease.Entries.Len()), err
		}, want: 3},
	}
	for _, change := range attempt.Changes() {
		adds := change == attempt.Add
		changes["one "+change.String()] = lostChange{func(l attempt.List) (int64, error) {
			return r.Apply(ctx, change, l, "a", "")
		}, 1, adds, !adds || clusterOf(t) == sqldb.ClusterNone}
		changes["batch "+change.String()] = lostChange{func(l attempt.List) (int64, error) {
			return r.ApplyBatch(ctx, change, l, three, "")
		}, 3, adds, false}
		changes["long "+change.String()] = lostChange{func(l attempt.List) (int64, error) {
			return r.ApplyStaged(ctx, change, l, parts(three), "")
		}, 3, adds, false}
	}

	for name, c := range changes {
		lost := []faultproxy.When{faultproxy.BeforeCommit, faultproxy.AfterCommit}
		if c.statement {
			lost = []faultproxy.When{faultproxy.BeforeStatement, faultproxy.AfterStatement}
		}
		for _, when := range lost {
			l := attempt.List(fmt.Sprintf("%s %v", name, when))
			if !c.none {
				held = fill(t, r, l)
			}
			before := state(t, r, l)
			cuts := cutOnce(proxies, when)
			n, err := c.change(l)
			if made := cuts(); made != 1 {
				t.Errorf("%s: %d cuts: the test proved nothing", l, made)
			}
			if n != c.want || err != nil {
				t.Errorf("%s: %d %v, want %d", l, n, err, c.want)
			}
			if state(t, r, l) == before {
				t.Errorf("%s: nothing was changed", l)
			}
		}
	}
}

// fill adds three items to a list, increments and claims them.
func fill(t *testing.T, r *rig, l attempt.List) attempt.Claim {
	t.Helper()
	for _, change := range []attempt.Change{attempt.Add, attempt.Increment} {
		if _, err := r.ApplyBatch(t.Context(), change, l, attempt.ItemsOf("a", "b", "c"), ""); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := r.Claim(t.Context(), l, 3, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return lease.Claim
}

// state returns a text of all that a list has. A coordinator may find first that its connections to workers were cut.
func state(t *testing.T, r *rig, l attempt.List) (all string) {
	t.Helper()
	const query = `SELECT coalesce(string_agg(concat_ws(' ', item, attempts, claim, lease_until), ','
		ORDER BY item), '') FROM iidy.lists WHERE list = $1`
	waittest.Eventually(t, "the workers answer", func() bool {
		return r.db.GetContext(t.Context(), &all, query, string(l)) == nil
	})
	return all
}

// cutOnce lets the next COMMIT be lost, and returns a function that ends that and returns the number of cuts.
func cutOnce(proxies []*faultproxy.Proxy, when faultproxy.When) (cuts func() int) {
	count := func() (n int) {
		for _, p := range proxies {
			n += p.Cuts()
			p.StopCutting()
		}
		return n
	}
	before := count()
	for _, p := range proxies {
		p.Cut(when, faultproxy.RST, faultproxy.Matching("iidy.lists"))
	}
	return func() int { return count() - before }
}

// Batches and long batches over the same items from both ends do not deadlock on a worker. They and single changes
// commit in one phase: the second one of two may still be outstanding when the coordinator says that it is done.
func TestNoDeadlocksOnCitus(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.Citus(t, postgres.Migrations())
	stores := []*rig{rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second), rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)}
	forth := make([]attempt.Item, 0, 400)
	for i := range cap(forth) {
		forth = append(forth, attempt.Item(fmt.Sprintf("%04d", i)))
	}
	back := slices.Clone(forth)
	slices.Reverse(back)
	const inTwoPhases = `SELECT count(*) FROM pg_dist_transaction`
	before := apptest.One[int](t, stores[0].db, inTwoPhases)
	var incremented atomic.Int64
	waittest.Together(t, 12, func(c int) error {
		items := attempt.ItemsOf([][]attempt.Item{forth, back}[c%2]...)
		for i := range 10 {
			s, change := stores[c%len(stores)], attempt.Changes()[(c+i)%3]
			var n int64
			var err error
			if i%2 == 0 {
				n, err = s.ApplyBatch(t.Context(), change, list, items, "")
			} else {
				n, err = s.ApplyStaged(t.Context(), change, list, parts(items), "")
			}
			if err != nil && !errors.Is(err, attempt.ErrBusy) {
				return err
			}
			if _, err := s.RunGroup(t.Context(), change, list, forth[c], forth[c+1]); err != nil {
				return err
			}
			if change == attempt.Increment {
				incremented.Add(n)
			}
		}
		return nil
	})
	if n := onWorkers(stores[0], `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := apptest.One[int](t, stores[0].db, inTwoPhases) - before; n > 0 {
		t.Errorf("%d transactions were committed in two phases", n)
	}
	if incremented.Load() == 0 {
		t.Error("nothing was incremented: the test proved nothing")
	}
}
