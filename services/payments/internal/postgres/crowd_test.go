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
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// A key whose payment is being charged on another replica: as many of its requests wait as there are places, the others
// are refused, and other keys are paid. Those that waited get the one answer.
func TestRequestsOfABusyKeyHoldAShare(t *testing.T) {
	t.Parallel()
	const requests, places = 20, 4
	dsn := dbtest.Postgres(t, postgres.Migrations())
	release := holder(t, openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), "busy")
	defer release()
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{
		LockWait: 2 * time.Minute, Limits: groupcommit.Limits{Share: contention.NewShare(6*places, nil)},
	})
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
	for range requests - places {
		if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
			t.Errorf("got %v, want ErrCrowded", err)
		}
	}
	if fresh, err := pay(t.Context(), r, "another"); !fresh || err != nil || len(answers) > 0 {
		t.Errorf("another key: %t, %v, after %d answers", fresh, err, len(answers))
	}
	release()
	for range places {
		if err := <-answers; err != nil {
			t.Error(err)
		}
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
	claimed := r.mustClaim(t)
	defer claimed.Leave()
	for share.Take(0) {
	}
	lock := apptest.Hold(t, dbtest.Dial(t, dsn), `SELECT FROM payments.idempotency_records FOR UPDATE`)
	time.AfterFunc(200*time.Millisecond, lock.Rollback) // longer than a group waits
	if _, fresh, err := r.Settle(t.Context(), claimed.Held, paymenttest.NewPayment(claimed.Held)); !fresh || err != nil {
		t.Errorf("fresh %t, %v", fresh, err)
	}
}
