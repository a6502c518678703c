package processor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
	"github.com/rowlock/rowlock/services/payments/internal/processor"
)

// insertSQL enters a charge as another replica would.
const insertSQL = `INSERT INTO payments.processor_charges
	(processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version)
	VALUES ($1, 100, 'EUR', sha256(''), sha256('r'), 'x')`

// A key that another session is entering is locked, and delays its own callers alone; one that is there is read without
// a lock.
func TestLockedKeys(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s := simulator(t, ledger(t, dsn), payment.NewFingerprints("", ""), processor.Options{Timeout: time.Minute})
	direct := dbtest.Dial(t, dsn)
	if _, err := s.Charge(t.Context(), charge(t, "there", good)); err != nil {
		t.Fatal(err)
	}
	held := apptest.Hold(t, direct, insertSQL, "held")
	held.Execute(`SELECT FROM payments.processor_charges WHERE processor_key = 'there' FOR UPDATE`)

	blocked := make(chan error, 1)
	go func() {
		c := charge(t, "held", good)
		c.Amount++
		_, err := s.Charge(t.Context(), c)
		blocked <- err
	}()
	apptest.WaitForBlocked(t, direct, 1)
	waittest.Together(t, 20, func(i int) error {
		_, err := s.Charge(t.Context(), charge(t, fmt.Sprint("other-", i), good))
		return err
	})
	if len(blocked) > 0 {
		t.Errorf("the locked key was answered: %v", <-blocked)
	}
	if _, err := s.Find(t.Context(), charge(t, "held", good)); !errors.Is(err, payment.ErrNotCharged) {
		t.Errorf("Find of a charge that is not committed: %v", err)
	}
	held.Commit()
	if err := <-blocked; !errors.Is(err, payment.ErrKeyConflict) {
		t.Errorf("after the lock: %v, want a conflict with the charge that it waited for", err)
	}
}

// Two replicas whose groups share keys enter them in one order.
func TestGroupsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.WatchDeadlocks(t, dsn)
	s := simulator(t, ledger(t, dsn), payment.NewFingerprints("", ""), processor.Options{})
	direct := dbtest.Dial(t, dsn)
	held := apptest.Hold(t, direct, insertSQL, "m")
	done := make(chan error, 2)
	for i, keys := range [][]string{{"z", "m", "a"}, {"a", "z"}} {
		var group []payment.Charge
		for _, key := range keys {
			group = append(group, charge(t, key, good))
		}
		go func() { done <- s.Group(t.Context(), group...) }()
		apptest.WaitForBlocked(t, direct, i+1)
	}
	held.Rollback()
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// simulator returns a simulator on db, with a time-out of a second unless o has one.
func simulator(t *testing.T, db *sqldb.DB, f *payment.Fingerprints, o processor.Options) *processor.Simulator {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	o.Limits = groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, postgres.Schema, time.Minute),
		LockTimeout: 10 * time.Second, StatementTimeout: 20 * time.Second,
	}
	s := processor.New(f, o)
	apptest.CloseAtEnd(t, s.Close)
	return s
}
