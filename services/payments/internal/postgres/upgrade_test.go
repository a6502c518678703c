package postgres_test

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// The statements of 809d445, whose replicas run beside this release during an upgrade. They hold a key's row from the
// claim to the end of the processor's call.
const (
	formerClaim = `
INSERT INTO payments.idempotency_records AS r (key, status, request_fingerprint, fingerprint_version, expires_at)
VALUES ($1, 'PROCESSING', $2, 'test', clock_timestamp() + interval '1h')
ON CONFLICT (key) DO UPDATE
   SET status = 'PROCESSING',
       request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       expires_at = clock_timestamp() + interval '1h', created_at = clock_timestamp()
 WHERE r.expires_at <= clock_timestamp()
RETURNING clock_timestamp()`
	formerCount = `SELECT count(*) FROM payments.payments WHERE idempotency_key = $1`
	formerLive  = `SELECT status FROM payments.idempotency_records WHERE key = $1`
	formerStore = `
WITH paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status,
                                   decline_code, card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    VALUES ($1, $2, $3, 'ride', 'rider', 1, 'EUR', 'SUCCEEDED', NULL, 'visa', '4242', 12, 2030, now())
)
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = $1, response_status = 201, response_body = '{"of":"the former release"}'
 WHERE key = $2 AND status = 'PROCESSING'`
)

// former is the open transaction of a replica of the former release.
type former struct {
	tx  *sqlx.Tx
	key string
}

// begin claims a key as the former release does, and reports whether it has it.
func begin(t *testing.T, db *sqlx.DB, key string) (f former, owned bool) {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	sum := sha256.Sum256([]byte(key))
	var claimed []time.Time
	if err := tx.SelectContext(t.Context(), &claimed, formerClaim, key, sum[:]); err != nil {
		t.Fatal(err)
	}
	return former{tx, key}, len(claimed) == 1
}

// settle stores the payment after the charge.
func (f former) settle(t *testing.T) {
	t.Helper()
	var n int
	if err := f.tx.GetContext(t.Context(), &n, formerCount, f.key); err != nil {
		t.Fatal(err)
	}
	_, err := f.tx.ExecContext(t.Context(), formerStore, string(payment.NewID(time.Now())), f.key,
		payment.ProcessorKey(payment.Key{Value: f.key}, n))
	if err := errors.Join(err, f.tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

// A replica of the former release holds keys while its processor works: their requests here wait for it, then get its
// answer or pay themselves, and no other key is delayed.
func TestFormerReplicaFirst(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	settles, _ := begin(t, db, "settles")
	fails, _ := begin(t, db, "fails")
	type outcome struct {
		fresh bool
		err   error
	}
	answers := map[string]chan outcome{"settles": make(chan outcome, 1), "fails": make(chan outcome, 1)}
	for key, answer := range answers {
		go func() {
			fresh, err := pay(t.Context(), r, key)
			answer <- outcome{fresh, err}
		}()
	}
	apptest.WaitForBlocked(t, db, 1)
	for _, key := range []string{"a", "b", "c"} {
		if fresh, err := pay(t.Context(), r, key); !fresh || err != nil {
			t.Errorf("another key: fresh %t, %v", fresh, err)
		}
	}
	if len(answers["settles"])+len(answers["fails"]) != 0 {
		t.Error("a request did not wait for the former replica")
	}
	settles.settle(t)
	if err := fails.tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for key, fresh := range map[string]bool{"settles": false, "fails": true} {
		if got := <-answers[key]; got.err != nil || got.fresh != fresh {
			t.Errorf("%s: fresh %t, %v; want fresh %t", key, got.fresh, got.err, fresh)
		}
	}
}

// A replica of the former release finds the claims and the records of this one, and neither charges a key that is
// claimed nor loses its payment.
func TestFormerReplicaSecond(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	release := holder(t, r, "k")
	for _, want := range []string{"PROCESSING", "COMPLETED"} {
		f, owned := begin(t, db, "k")
		var status string
		err := errors.Join(f.tx.GetContext(t.Context(), &status, formerLive, "k"), f.tx.Rollback())
		if owned || status != want || err != nil {
			t.Errorf("the former replica owns it: %t, finds %s, %v; want %s", owned, status, err, want)
		}
		release()
	}
	// A record that expired is its to claim, and its payment is found here.
	if _, _, err := paymenttest.Pay(t.Context(), r, "expired", time.Microsecond); err != nil {
		t.Fatal(err)
	}
	f, owned := begin(t, db, "expired")
	if !owned {
		t.Fatal("the former replica does not get an expired key")
	}
	f.settle(t)
	if fresh, err := pay(t.Context(), r, "expired"); fresh || err != nil {
		t.Errorf("afterwards: fresh %t, %v", fresh, err)
	}
}
