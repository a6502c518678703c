package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// A repeated payment finds its record at once while pages of payments wait for their table, more of them than the pool
// has connections.
func TestRepeatDoesNotQueueBehindPages(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, MaxOpenConns: 8, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
	}, nil)
	r := replica{Store: postgres.New(db, postgres.Options{
		LockWait: time.Minute, Transactions: 6, IdleTimeout: time.Minute, Encode: paymenttest.Encode,
	}, unobserved{})}
	if fresh, err := pay(t.Context(), r, "key"); !fresh || err != nil {
		t.Fatalf("the first payment: fresh %t, %v", fresh, err)
	}
	const pages = 24
	direct := dbtest.Dial(t, dsn)
	lock := apptest.Hold(t, direct, `LOCK TABLE payments.payments IN ACCESS EXCLUSIVE MODE`)
	done := make(chan error, pages)
	for range pages {
		go func() {
			_, err := r.FindOfRide(t.Context(), "ride", nil, 25)
			done <- err
		}()
	}
	apptest.WaitForBlocked(t, direct, 4)
	waittest.Eventually(t, "the other pages wait", func() bool { return db.Stats().WaitCount >= pages-8 })
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if fresh, err := pay(within, r, "key"); fresh || err != nil || len(done) > 0 {
		t.Errorf("the repeat: fresh %t, %v, after %d pages; want the record, before any", fresh, err, len(done))
	}
	lock.Rollback()
	for range pages {
		if err := <-done; err != nil {
			t.Errorf("a page afterwards: %v", err)
		}
	}
}

// The count of unsettled charges reads all of the ledger. In the smallest pool, too, requests read meanwhile.
func TestReadsDoNotQueueBehindTheCountOfUnsettledCharges(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, MaxOpenConns: 3, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
	}, nil)
	store := postgres.New(db, postgres.Options{
		LockWait: time.Minute, Transactions: 1, IdleTimeout: time.Minute, Encode: paymenttest.Encode,
	}, unobserved{})
	direct := dbtest.Dial(t, dsn)
	lock := apptest.Hold(t, direct, `LOCK TABLE payments.processor_charges IN ACCESS EXCLUSIVE MODE`)
	counted := make(chan error, 1)
	go func() {
		_, err := store.Unsettled(t.Context(), time.Hour)
		counted <- err
	}()
	apptest.WaitForBlocked(t, direct, 1)
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := store.Find(within, "00000000-0000-4000-8000-000000000000")
	if !errors.Is(err, payment.ErrNotFound) || len(counted) > 0 {
		t.Errorf("a read beside the count: %v", err)
	}
	lock.Rollback()
	if err := <-counted; err != nil {
		t.Error(err)
	}
}
