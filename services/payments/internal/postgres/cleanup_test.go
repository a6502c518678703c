package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// The cleaner skips a row locked by another transaction instead of waiting for it.
func TestCleanerDoesNotWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	for _, key := range []string{"held", "free"} {
		if _, _, err := paymenttest.Pay(t.Context(), r, key, time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	apptest.Execute(t, db, ledgerOfPayments)
	for name, tc := range map[string]struct {
		lock   string
		delete func(context.Context) (int, error)
	}{
		"records": {
			`SELECT FROM payments.idempotency_records WHERE key = 'held' FOR UPDATE`,
			func(ctx context.Context) (int, error) { return r.DeleteExpired(ctx, 10) },
		},
		"ledger": {
			`SELECT FROM payments.processor_charges ORDER BY created_at LIMIT 1 FOR UPDATE`,
			func(ctx context.Context) (int, error) { return r.DeleteSettled(ctx, time.Microsecond, 10) },
		},
	} {
		holder := apptest.Hold(t, db, tc.lock)
		if n, err := tc.delete(t.Context()); n != 1 || err != nil {
			t.Errorf("%s: deleted %d, %v, want 1", name, n, err)
		}
		holder.Rollback()
		if n, err := tc.delete(t.Context()); n != 1 || err != nil {
			t.Errorf("%s: deleted %d, %v, want 1", name, n, err)
		}
	}
}

// ledgerOfPayments enters each payment into the ledger, as the simulator would.
const ledgerOfPayments = `INSERT INTO payments.processor_charges
		(processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code, created_at)
	SELECT processor_key, amount, currency, sha256(''), sha256('r'), 'test', decline_code, created_at
	  FROM payments.payments`

// Of the ledger only what has its payment goes, declines too, and only when entry and payment are old, in batches.
func TestDeleteSettled(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	for _, key := range []string{"old 1", "old 2", "old decline", "young", "late"} {
		if _, _, err := paymenttest.Pay(t.Context(), r, key, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	apptest.Execute(t, db, `UPDATE payments.payments SET status = 'DECLINED', decline_code = 'x'
		WHERE idempotency_key = 'old decline'`, ledgerOfPayments,
		// Charges and a decline whose request failed, and was not repeated.
		`INSERT INTO payments.processor_charges
			(processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code)
		SELECT k, 1, 'EUR', sha256(''), sha256('r'), 'test', d
		  FROM (VALUES ('lost', NULL), ('lost decline', 'x')) v (k, d)`,
		`UPDATE payments.processor_charges SET created_at = now() - interval '31d' WHERE processor_key NOT IN
			(SELECT processor_key FROM payments.payments WHERE idempotency_key = 'young')`,
		// The payment of "late" was settled just now, by a repeat.
		`UPDATE payments.payments SET created_at = now() - interval '31d' WHERE idempotency_key LIKE 'old%'`)
	for _, want := range []int{2, 1, 0} {
		if n, err := r.DeleteSettled(t.Context(), 30*24*time.Hour, 2); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	left := apptest.One[string](t, db, `SELECT string_agg(k, ', ' ORDER BY k) FROM
		(SELECT coalesce(idempotency_key, processor_key) AS k
		   FROM payments.processor_charges LEFT JOIN payments.payments USING (processor_key)) of_each`)
	if want := "late, lost, lost decline, young"; left != want {
		t.Errorf("left are %s, want %s", left, want)
	}
}
