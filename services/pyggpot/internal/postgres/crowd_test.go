package postgres

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// TestChangesOfLeasedPotsHoldAShare: of the changes of leased pots, be it one pot or many, as many wait as there are
// places, and the others are refused. Other pots are changed meanwhile. Those that waited are made when the leases end.
func TestChangesOfLeasedPotsHoldAShare(t *testing.T) {
	t.Parallel()
	const changes, perPot = 20, 4
	for name, pots := range map[string]int{"one pot": 1, "many pots": changes} {
		places := min(pots, 2) * perPot
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, _ := open(t, func(o *Options) {
				o.Limits.Share = contention.NewShare(4*perPot, nil)
				o.Retries, o.RetryWait = 100_000, time.Millisecond
			})
			ids := make([]pot.ID, pots)
			for i := range ids {
				p, err := r.Create(t.Context(), "leased "+strconv.Itoa(100+i), 1000)
				if err != nil {
					t.Fatal(err)
				}
				ids[i] = p.ID
			}
			apptest.Execute(t, db, leasedForever)
			free := mustCreate(t, r, 1000)
			answers := make(chan error, changes)
			for i := range changes {
				go func() { answers <- r.Change(context.WithoutCancel(t.Context()), ids[i%pots], addGold(1)) }()
			}
			waittest.Eventually(t, "those without a place are refused", func() bool { return len(answers) >= changes-places })
			for range 20 {
				if err := r.Change(t.Context(), free, addGold(1)); err != nil {
					t.Errorf("another pot: %v", err)
				}
			}
			for range changes - places {
				if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
					t.Errorf("got %v, want ErrCrowded", err)
				}
			}
			apptest.Execute(t, db, expire)
			for range places {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
			apptest.Execute(t, db, `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL WHERE coins = 0`)
			wantTotal(t, db, int64(20+places))
			if n := r.share.Free(); n != 2*perPot {
				t.Errorf("%d places are free, want %d", n, 2*perPot)
			}
		})
	}
}
