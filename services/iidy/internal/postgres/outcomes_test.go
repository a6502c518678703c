package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// eachServer runs a test on one server, with the proxy before it, on a cluster, with the proxies between its nodes, and
// on one server that gets what is sent to a cluster.
func eachServer(t *testing.T, test func(t *testing.T, dsn string, proxies []*faultproxy.Proxy)) {
	t.Helper()
	t.Run("OnOneServer", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		server := faultproxy.New(t, dsn)
		test(t, server.DSN(dsn), []*faultproxy.Proxy{server})
	})
	t.Run(onCitus[:len(onCitus)-1], func(t *testing.T) {
		t.Parallel()
		dsn, workers := apptest.Citus(t, postgres.Migrations())
		test(t, dsn, workers)
	})
	t.Run(onShards[:len(onShards)-1], func(t *testing.T) {
		t.Parallel()
		dsn, server := apptest.OneServer(t, postgres.Migrations())
		test(t, dsn, []*faultproxy.Proxy{server})
	})
}

// Each change is made once and answered so, whether its request is lost or its answer.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	eachServer(t, lostChanges)
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

// state returns a text of all that a list has.
func state(t *testing.T, r *rig, l attempt.List) string {
	t.Helper()
	return eventually[string](t, r.db, `SELECT coalesce(string_agg(concat_ws(' ', item, attempts, claim, lease_until), ','
		ORDER BY item), '') FROM iidy.lists WHERE list = $1`, string(l))
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

// The sums of single changes and batches by two replicas are exact, on one list and on many, also while replies and
// requests get lost: what is answered was applied once, and what is answered as not applied was not. No outcome is
// unknown.
func TestIncrementsAreExact(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string, proxies []*faultproxy.Proxy) {
		t.Helper()
		stores := []*rig{rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second), rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)}
		for _, lists := range []int{1, 30} {
			for _, p := range proxies {
				p.CutEvery(7, faultproxy.AfterCommit, faultproxy.RST)
				p.CutEvery(11, faultproxy.BeforeCommit, faultproxy.RST)
				p.CutEvery(13, faultproxy.AfterStatement, faultproxy.RST)
			}
			incrementMany(t, stores, fmt.Sprintf("lossy%d", lists), lists, func() (cuts int) {
				for _, p := range proxies {
					p.StopCutting()
					cuts += p.Cuts()
				}
				return cuts
			})
		}
	})
}

// eventually is one for a coordinator that may find that its connections to workers were cut.
func eventually[T any](t *testing.T, db *sqlx.DB, query string, args ...any) (v T) {
	t.Helper()
	waittest.Eventually(t, "the workers answer", func() bool {
		return db.GetContext(t.Context(), &v, query, args...) == nil
	})
	return v
}

// incrementMany increments three items of each list from many callers, calls stop, which returns the number of cuts,
// and compares the sum with the answers.
func incrementMany(t *testing.T, stores []*rig, prefix string, lists int, stop func() (cuts int)) {
	t.Helper()
	const callers, rounds = 20, 30
	items := []attempt.Item{"a", "b", "c"}
	name := func(i int) attempt.List { return attempt.List(fmt.Sprintf("%s-%d", prefix, i%lists)) }
	for i := range lists {
		for sure := false; !sure; {
			_, err := stores[0].ApplyBatch(t.Context(), attempt.Add, name(i), attempt.ItemsOf(items...), "")
			sure = err == nil
		}
	}
	var acknowledged atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		for i := range rounds {
			s, l, n := stores[c%len(stores)], name(c*rounds+i), int64(1)
			var err error
			if i%3 == 0 {
				named := slices.Clone(items)
				if c%2 == 0 {
					slices.Reverse(named)
				}
				n = int64(len(named))
				_, err = s.ApplyBatch(t.Context(), attempt.Increment, l, attempt.ItemsOf(named...), "")
			} else {
				_, err = s.Apply(t.Context(), attempt.Increment, l, items[i%len(items)], "")
			}
			if err == nil {
				acknowledged.Add(n)
			} else if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome == sqldb.Unknown {
				return err
			}
		}
		return nil
	})

	if cuts := stop(); cuts == 0 {
		t.Errorf("%s: nothing was cut: the test proved nothing", prefix)
	}
	const query = `SELECT sum(attempts) FROM iidy.lists WHERE starts_with(list, $1)`
	sum := eventually[int64](t, stores[0].db, query, prefix+"-")
	if sum != acknowledged.Load() || sum == 0 {
		t.Errorf("%s: %d are stored, %d were acknowledged", prefix, sum, acknowledged.Load())
	}
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

// An item is claimed by one caller alone, who knows it, also when the replies of claims get lost.
func TestLostClaims(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string, proxies []*faultproxy.Proxy) {
		t.Helper()
		stores := []*rig{rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second), rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)}
		const items = 600
		seed(t, stores[0].db, string(list), items)
		for _, p := range proxies {
			p.CutEvery(7, faultproxy.AfterCommit, faultproxy.RST)
		}

		var mu sync.Mutex
		claimed := make(map[attempt.Item]int)
		waittest.Together(t, 8, func(c int) error {
			for {
				l, err := stores[c%len(stores)].Claim(t.Context(), list, 5, time.Hour)
				outcome, ours := sqldb.OutcomeOf(err)
				switch {
				case ours && outcome == sqldb.NotApplied: // lost three times
					continue
				case err != nil || l.Claim == "":
					return err
				}
				mu.Lock()
				for e := range l.Entries.All() {
					claimed[e.Item]++
				}
				mu.Unlock()
			}
		})
		for item, n := range claimed {
			if n > 1 {
				t.Errorf("%s was claimed %d times", item, n)
			}
		}
		if len(claimed) != items {
			t.Errorf("%d of %d items have a holder", len(claimed), items)
		}
	})
}
