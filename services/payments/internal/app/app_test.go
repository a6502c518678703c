package app_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/waittest"
)

// The same request in another spelling is a repeat; another amount is a conflict.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, nil)
	first := r.pay(t, "k", body(1250, goodCard)).paid(t)
	r.pay(t, "k", `{ "card" : {"cvc":"123", "exp_year":2099,"number":"4242424242424242","exp_month": 12 },
		"currency":"EUR","amount":1250,"rider_id":"rider-1","ride_id":"ride-1"}  `).repeats(t, first)
	r.pay(t, "k", strings.Replace(body(1250, goodCard), `"EUR"`, `"\u0045UR"`, 1)).repeats(t, first)
	r.pay(t, `"k"`, body(1250, goodCard)).repeats(t, first)
	a := r.pay(t, "k", body(1251, goodCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	conflicts, replays := r.Metric(t, "payments_conflicts_total"), r.Metric(t, "payments_replays_total")
	paid := r.Metric(t, `payments_total{status="SUCCEEDED"}`)
	if paid != 1 || conflicts != 1 || replays != 3 || a.Header.Get("Retry-After") != "" {
		t.Errorf("%g payments, %g conflicts, %g replays; %v", paid, conflicts, replays, a.Header)
	}
	db.counts(t, 1, 1, 1)
}

// 504 after the charge: other values are refused, the same request settles the payment.
func TestTimeoutAfterTheCharge(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	rs := startAll(t, dsn, 2, map[string]string{"PROCESSOR_TIMEOUT": "1s"})
	rs[0].pay(t, "k", body(100, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	rs[1].pay(t, "k", body(101, timeoutCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	// Another card is refused whatever it would have got: the key is charged.
	for _, card := range []string{goodCard, declinedCard, faultCard} {
		rs[0].pay(t, "k", body(100, card)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	}
	db.counts(t, 0, 1, 0)
	first := rs[1].pay(t, "k", body(100, timeoutCard)).paid(t)
	rs[0].pay(t, "k", body(100, timeoutCard)).repeats(t, first)
	db.counts(t, 1, 1, 1)
}

// Two cleaners delete expired records, keep live ones, and count unsettled charges.
func TestCleanup(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	rs := startAll(t, dsn, 2, map[string]string{"CLEANUP_INTERVAL": "20ms"})
	live := rs[0].pay(t, "live", body(1, goodCard)).paid(t)
	apptest.Execute(t, db.DB, `INSERT INTO payments.idempotency_records
			(key, status, request_fingerprint, fingerprint_version, expires_at)
		SELECT 'old' || i, 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', now() FROM generate_series(1, 2000) i`,
		// A charge without a payment that is older than the keys live, a young one, and a settled one.
		`INSERT INTO payments.processor_charges
			(processor_key, amount, currency, card_fingerprint, fingerprint_version, created_at)
		SELECT k, 1, 'EUR', decode(repeat('00', 32), 'hex'), 'x', at
		  FROM (VALUES ('lost', now() - interval '25h'), ('young', now())) v (k, at)`,
		`UPDATE payments.processor_charges SET created_at = now() - interval '25h'
		WHERE processor_key = (SELECT processor_key FROM payments.payments)`)
	waittest.Eventually(t, "both replicas have cleaned up", func() bool {
		deleted, unsettled := "payments_cleanup_deleted_total", "payments_unsettled_charges"
		return rs[0].Metric(t, deleted)+rs[1].Metric(t, deleted) == 2000 &&
			rs[0].Metric(t, unsettled) == 1 && rs[1].Metric(t, unsettled) == 1
	})
	rs[1].pay(t, "live", body(1, goodCard)).repeats(t, live)
	db.counts(t, 1, 3, 1)
}

// A record of the old secret is still compared after a rotation. Without a secret the
// start warns.
func TestFingerprintSecrets(t *testing.T) {
	t.Parallel()
	const warning = "FINGERPRINT_SECRET is not set"
	dsn, _ := open(t)
	old := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "one"})
	rotated := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "two", "FINGERPRINT_SECRET_PREVIOUS": "one"})
	bare := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": ""})
	first := old.pay(t, "k", body(1, goodCard)).paid(t)
	rotated.pay(t, "k", body(1, goodCard)).repeats(t, first)
	bare.pay(t, "k", body(1, goodCard)).want(t, 503, "NOT_APPLIED")
	if log := bare.Log.String(); strings.Count(log, warning) != 1 {
		t.Errorf("without a secret: %s", log)
	}
	if log := old.Log.String(); strings.Contains(log, warning) || strings.Contains(log, `"one"`) {
		t.Errorf("with a secret: %s", log)
	}
}
