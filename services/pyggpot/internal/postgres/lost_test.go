package postgres

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// TestLostReplies: many callers on two replicas change one pot or several while every seventh reply of the database
// gets lost, to any statement. Each caller learns whether its change was made, and it was made once or not at all.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, pots := range []int{1, 6} {
		t.Run(fmt.Sprint(pots, " pots"), func(t *testing.T) {
			t.Parallel()
			direct, db, dsn := open(t)
			ids := make([]pot.ID, pots)
			for i := range ids {
				ids[i] = mustCreate(t, direct, fmt.Sprint("lossy ", i), 1_000_000)
			}
			proxy := faultproxy.New(t, dsn)
			// A lease whose release was lost ends soon.
			shortLeases := func(_ *groupcommit.Limits, o *Options) { o.TTL = time.Second }
			stores := []replica{
				openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, shortLeases),
				openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, shortLeases),
			}

			proxy.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("pyggpot.pot"))
			acknowledged := contend(t, stores, ids)
			proxy.StopCutting()

			stored := apptest.One[int64](t, db, `SELECT sum(coins) FROM pyggpot.pot`)
			t.Logf("%d replies cut, %d changes acknowledged, %d stored", proxy.Cuts(), acknowledged, stored)
			if proxy.Cuts() == 0 || acknowledged == 0 {
				t.Errorf("%d cuts, %d changes acknowledged: the test proved nothing", proxy.Cuts(), acknowledged)
			}
			if stored != acknowledged {
				t.Errorf("%d coins are stored, %d were acknowledged", stored, acknowledged)
			}
		})
	}
}

// contend adds a coin to the pots by many callers, and returns how many of them were told that it is there. No outcome
// may be unknown.
func contend(t *testing.T, stores []replica, ids []pot.ID) int64 {
	t.Helper()
	const callers, rounds = 24, 40
	var made atomic.Int64
	waittest.Together(t, callers, func(caller int) error {
		for round := range rounds {
			err := stores[caller%len(stores)].add(t, ids[(caller+round*round)%len(ids)], 1)
			if err == nil {
				made.Add(1)
				continue
			}
			if outcome, ours := sqldb.OutcomeOf(err); !errors.Is(err, pot.ErrLocked) && (!ours || outcome == sqldb.Unknown) {
				return err
			}
		}
		return nil
	})
	return made.Load()
}

// TestALostReleaseIsSentAgain: a connection ends before the server gets a release. The pot is free all the same.
func TestALostReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	direct, db, dsn := open(t)
	group := []pot.Change{gold(mustCreate(t, direct, "pot", 10), 1)}
	proxy := faultproxy.New(t, dsn)
	r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
	lease := r.mustTake(t, group...)

	proxy.Cut(faultproxy.BeforeStatement, faultproxy.RST, faultproxy.Matching("pyggpot.pot"))
	r.release(t.Context(), lease, group)

	if proxy.Cuts() != 1 {
		t.Errorf("%d cuts, want 1", proxy.Cuts())
	}
	wantTotal(t, db, 0)
}
