package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// A repeated payment finds its record at once while reads of the same pool wait for a lock, more of them than it has
// connections. So does one that looks at its key, which another request of the replica holds.
func TestRepeatDoesNotQueueBehindReads(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, MaxOpenConns: 8, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
	}, nil)
	store, err := postgres.New(postgres.Options{
		Limits: groupcommit.Limits{
			DB: db, Slots: groupcommit.NewSlots(db, postgres.Schema, time.Minute),
			Queue: 64, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
		},
		LockWait: time.Minute, Encode: paymenttest.Encode,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := replica{Store: store}
	if fresh, err := pay(t.Context(), r, "key"); !fresh || err != nil {
		t.Fatalf("the first payment: fresh %t, %v", fresh, err)
	}
	held, err := r.Claim(t.Context(), paymenttest.NewClaim("held", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Leave()
	const reads = 24
	direct := dbtest.Dial(t, dsn)
	lock := apptest.Hold(t, direct, `SELECT pg_advisory_xact_lock(1)`)
	done := make(chan error, reads)
	for range reads {
		go func() {
			var none []string
			done <- db.SelectContext(t.Context(), &none, `SELECT pg_advisory_xact_lock_shared(1)`)
		}()
	}
	apptest.WaitForBlocked(t, direct, 4)
	waittest.Eventually(t, "the other reads wait", func() bool { return db.Stats().WaitCount >= reads-8 })
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if fresh, err := pay(within, r, "key"); fresh || err != nil || len(done) > 0 {
		t.Errorf("the repeat: fresh %t, %v, after %d reads; want the record, before any", fresh, err, len(done))
	}
	other := paymenttest.Other(paymenttest.NewClaim("held", time.Hour))
	if _, err := r.Claim(within, other); !errors.Is(err, payment.ErrKeyConflict) || len(done) > 0 {
		t.Errorf("another request: %v, after %d reads; want the conflict, before any", err, len(done))
	}
	lock.Rollback()
	for range reads {
		if err := <-done; err != nil {
			t.Errorf("a read afterwards: %v", err)
		}
	}
}
