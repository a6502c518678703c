package app_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// crowd sends n payments at once: the i-th by send(i). All must succeed.
func crowd(t *testing.T, n int, send func(i int) answer) []answer {
	t.Helper()
	answers := make([]answer, n)
	waittest.Together(t, n, func(i int) error {
		answers[i] = send(i)
		return answers[i].check(201, "SUCCEEDED")
	})
	return answers
}

// 100 requests at once for one key that another session holds do not starve other keys.
func TestCrowdOnOneHeldKey(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, map[string]string{"LOCK_WAIT": "7s", "PROCESSOR_TIMEOUT": "1s"})
	holder := apptest.Hold(t, db.DB, `INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key, ride_id, rider_id,
		 amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at, created_at)
		VALUES ('held', 'PROCESSING', sha256(''), 'x', gen_random_uuid(), now() + interval '1h', 'x', 'r', 'r', 1, 'EUR',
		 'visa', '4242', 12, 2099, now() + interval '1h', now())`)
	served := make(chan []answer)
	go func() {
		served <- crowd(t, 100, func(int) answer { return r.pay(t, "held", body(1, goodCard)) })
	}()
	apptest.WaitForBlocked(t, db.DB, 1)
	for i := range 5 {
		r.pay(t, fmt.Sprint("other-", i), body(2, goodCard)).paid(t)
	}
	holder.Rollback()
	answers := <-served
	for _, a := range answers {
		if a.Body != answers[0].Body {
			t.Errorf("two answers to one key:\n%s\n%s", a, answers[0])
		}
	}
	db.counts(t, 6, 6, 6)
	if n := r.Metric(t, `rowlock_lock_wait_seconds_count{lock="key",where="process"}`); n < 99 {
		t.Errorf("%g were counted as waiting", n)
	}
}

// Holders that fail one after the other make a caller wait for each of them:
// LOCK_WAIT bounds all of it together.
func TestWaitBehindManyHolders(t *testing.T) {
	t.Parallel()
	dsn, _ := open(t)
	rs := startAll(t, dsn, 5, map[string]string{"PROCESSOR_LATENCY": "700ms", "LOCK_WAIT": "1s"})
	var processing atomic.Int64
	waittest.Together(t, len(rs), func(i int) error {
		a := rs[i].pay(t, "k", body(1, faultCard))
		if a.Status == 409 {
			processing.Add(1)
			return a.check(409, "PAYMENT_PROCESSING")
		}
		return a.check(502, "PROCESSOR_ERROR")
	})
	// Each holder takes 0.7 s, so two get the key within a second.
	if processing.Load() < 2 {
		t.Errorf("%d of %d waited no longer than LOCK_WAIT", processing.Load(), len(rs))
	}
}

// A pooler with two connections to the server serves any number of payments and their charges.
func TestPoolerSmallerThanTheCrowd(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dbtest.PgBouncer(t, dsn, 2), map[string]string{"DB_POOLER": "transaction", "MIGRATE_DATABASE_URL": dsn})
	const payments = 40
	crowd(t, payments, func(i int) answer { return r.pay(t, fmt.Sprint("k", i), body(1, goodCard)) })
	db.counts(t, payments, payments, payments)
}
