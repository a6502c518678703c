package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
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
			share := contention.NewShare(6*places, nil)
			r := openStore(t, dsn, sqldb.PoolerNone,
				postgres.Options{LockWait: 2 * time.Minute, Limits: groupcommit.Limits{Share: share}})
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
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
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
			free := 0
			for share.Take(free) {
				free++
			}
			if free != 3*places {
				t.Errorf("%d permits are free, want %d", free, 3*places)
			}
		})
	}
}

// Another request with the key of a payment that is being charged is refused at once, on this replica and on another.
func TestAConflictDoesNotWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	o := postgres.Options{LockWait: time.Minute}
	same, other := openStore(t, dsn, sqldb.PoolerNone, o), openStore(t, dsn, sqldb.PoolerNone, o)
	release := holder(t, same, "k")
	defer release()
	for name, r := range map[string]replica{"this replica": same, "another replica": other} {
		c := paymenttest.Other(paymenttest.NewClaim("k", time.Hour))
		begin := time.Now()
		if _, err := r.Claim(t.Context(), c); !errors.Is(err, payment.ErrKeyConflict) || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %v after %s, want ErrKeyConflict", name, err, time.Since(begin))
		}
	}
}

// A settlement waits for its row though other callers hold all places of the share: its card is charged.
func TestASettlementIsNotRefusedForACrowd(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	share := contention.NewShare(1, nil)
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{Limits: groupcommit.Limits{Share: share}})
	claimed, err := r.Claim(t.Context(), paymenttest.NewClaim("k", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer claimed.Leave()
	for share.Take(0) {
	}
	lock := apptest.Hold(t, dbtest.Dial(t, dsn), `SELECT FROM payments.idempotency_records FOR UPDATE`)
	time.AfterFunc(200*time.Millisecond, lock.Rollback) // longer than a group waits
	if _, fresh, err := r.Settle(t.Context(), claimed.Held, paymenttest.NewPayment(claimed.Held)); !fresh || err != nil {
		t.Errorf("fresh %t, %v", fresh, err)
	}
}

// A takeover waits for a locked row as long as a claim does, LockWait, and not DB_LOCK_TIMEOUT.
func TestATakeoverIsRefusedAfterLockWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{LockWait: 100 * time.Millisecond})
	claimed, err := r.Claim(t.Context(), paymenttest.NewClaim("k", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.GiveBack(t.Context(), claimed.Held); err != nil {
		t.Fatal(err)
	}
	claimed.Leave()
	lock := apptest.Hold(t, dbtest.Dial(t, dsn), `SELECT FROM payments.idempotency_records FOR UPDATE`)
	defer lock.Rollback()
	begin := time.Now()
	if _, err := pay(t.Context(), r, "k"); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("%v, want ErrProcessing", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %s", took)
	}
}
