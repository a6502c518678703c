package app_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
)

// TestFailover: the primary is killed under load and its synchronous standby promoted. No answer is INTERNAL, and none
// OUTCOME_UNKNOWN: what was acknowledged is there, and nothing else. The replica serves again by itself.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	standby := dbtest.Standby(t, primary)
	r := apptest.Run(t, app.Service(), dbtest.BothHosts(t, primary, standby), map[string]string{"LOCK_TTL": "2s"})
	dbtest.WaitForStandby(t, primary)
	c := newCaller(t, r.API, new(http.Transport))
	const pots = 4
	ids := make([]int32, pots)
	for i := range ids {
		var made potpb.PotResponse
		request := &potpb.CreatePotRequest{PotName: "pot" + string(rune('a'+i)), MaxCoins: 1 << 30}
		if refused := c.call(t, request, &made); refused != nil {
			t.Fatal(refused)
		}
		ids[i] = made.GetPotId()
	}
	var stopped atomic.Bool
	var added, unknown, refusals atomic.Int64
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() { stopped.Store(true); wg.Wait() })
	t.Cleanup(stop)
	for i := range 4 * pots {
		request := &coin.AddCoinsRequest{PotId: ids[i%pots], Coins: kinds(1, 1)}
		wg.Go(func() {
			for !stopped.Load() {
				switch refused := c.call(t, request, nil); {
				case refused == nil:
					added.Add(1)
				case refused.reason == "OUTCOME_UNKNOWN":
					unknown.Add(1)
				case refused.reason == "INTERNAL" || refused.reason == "":
					t.Errorf("%+v", refused)
				default:
					refusals.Add(1)
				}
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		before := added.Load()
		waittest.Eventually(t, what, func() bool { return added.Load() > before+20 })
	}
	progress("coins are added")
	if err := primary.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	progress("coins are added on the promoted standby")
	stop()
	const sum = `SELECT coalesce(sum(coins), 0) FROM pyggpot.pot`
	total := apptest.One[int64](t, dbtest.Dial(t, standby.URL("postgres")), sum)
	t.Logf("%d coins, %d added, %d unknown, %d refused", total, added.Load(), unknown.Load(), refusals.Load())
	if total != added.Load() || unknown.Load() != 0 {
		t.Errorf("%d coins, %d were acknowledged, %d are unknown", total, added.Load(), unknown.Load())
	}
}
