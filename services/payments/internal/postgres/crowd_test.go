package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// A key whose payment is being charged, on this replica or on another one: as many of its requests wait as there are
// places, the others are refused, and other keys are paid. Those that waited get the one answer.
func TestRequestsOfABusyKeyHoldAShare(t *testing.T) {
	t.Parallel()
	const requests, places = 20, 4
	for name, elsewhere := range map[string]bool{"this replica": false, "another replica": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			share := contention.NewShare(4*places, nil)
			r := openStore(t, dsn, sqldb.PoolerNone,
				postgres.Options{LockWait: 2 * time.Minute, Limits: coalesce.Limits{Share: share}})
			charging := r
			if elsewhere { // the first request of this replica looks for it, and holds a place too
				charging = openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
			}
			release := holder(t, charging, "busy")
			defer release()
			answers := make(chan error, requests)
			for range requests {
				go func() {
					fresh, err := pay(t.Context(), r, "busy")
					if fresh {
						t.Error("the key was paid twice")
					}
					answers <- err
				}()
			}
			refused := requests - places
			waittest.Eventually(t, "those without a place are refused", func() bool { return len(answers) >= refused })
			for _, key := range []payment.Key{"a", "b", "c", "d", "e", "f", "g", "h"} {
				if fresh, err := pay(t.Context(), r, key); !fresh || err != nil {
					t.Errorf("another key: %t, %v", fresh, err)
				}
			}
			for range refused {
				if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
					t.Errorf("got %v, want ErrCrowded", err)
				}
			}
			release()
			for range requests - refused {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
			if share.Free() != 2*places {
				t.Errorf("%d places are free, want %d", share.Free(), 2*places)
			}
		})
	}
}
