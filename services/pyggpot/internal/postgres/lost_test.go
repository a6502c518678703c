package postgres

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// TestChangesWhileRepliesGetLost: many callers on two replicas change one pot or several while every seventh reply of
// the database gets lost, to any statement. What is answered was made once, and what is answered as not made was not.
func TestChangesWhileRepliesGetLost(t *testing.T) {
	t.Parallel()
	for _, pots := range []int{1, 6} {
		t.Run(fmt.Sprint(pots, " pots"), func(t *testing.T) {
			t.Parallel()
			direct, db, dsn := open(t)
			ids := make([]pot.ID, pots)
			for i := range ids {
				ids[i] = direct.mustCreate(t, fmt.Sprint("lossy ", i), 1_000_000)
			}
			proxy := faultproxy.New(t, dsn)
			shortLeases := func(o *Options) { o.TTL = time.Second } // a pot whose release was lost comes free soon
			stores := []replica{
				openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, shortLeases),
				openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, shortLeases),
			}

			proxy.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("pyggpot.pot"))
			acknowledged, unknown := contend(t, stores, ids)
			proxy.StopCutting()

			var stored int64
			if err := db.GetContext(t.Context(), &stored, `SELECT sum(coins) FROM pyggpot.pot`); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d replies cut, %d changes acknowledged, %d unknown, %d stored",
				proxy.Cuts(), acknowledged, unknown, stored)
			if proxy.Cuts() == 0 || acknowledged == 0 {
				t.Errorf("%d cuts, %d changes acknowledged: the test proved nothing", proxy.Cuts(), acknowledged)
			}
			if stored < acknowledged || stored > acknowledged+unknown {
				t.Errorf("%d stored, want %d and up to %d more", stored, acknowledged, unknown)
			}
			if unknown > acknowledged/20 {
				t.Errorf("%d unknown beside %d acknowledged", unknown, acknowledged)
			}
		})
	}
}

// contend adds a coin to the pots by many callers, and returns how many of them were told that it is there, and how
// many that it may be.
func contend(t *testing.T, stores []replica, ids []pot.ID) (acknowledged, unknown int64) {
	t.Helper()
	const callers, rounds = 24, 40
	var made, open atomic.Int64
	waittest.Together(t, callers, func(caller int) error {
		for round := range rounds {
			err := stores[caller%len(stores)].Change(t.Context(), ids[(caller+round*round)%len(ids)], addGold(1))
			outcome, ours := sqldb.OutcomeOf(err)
			switch {
			case err == nil:
				made.Add(1)
			case ours && outcome == sqldb.Unknown:
				open.Add(1)
			case !ours && !errors.Is(err, pot.ErrLocked):
				return err
			}
		}
		return nil
	})
	return made.Load(), open.Load()
}
