package app_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

// 504 after the charge: other values are refused from any caller, and leave nothing behind; the same request
// settles the payment of the ride whose card was charged, and its repeats get the same bytes through every replica.
func TestTimeoutAfterTheCharge(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	rs := startAll(t, dsn, 2, map[string]string{"PROCESSOR_TIMEOUT": "1s"})
	alice := body(100, timeoutCard)
	rs[0].pay(t, "k", alice).want(t, 504, "PROCESSOR_TIMEOUT")
	for _, other := range []string{
		// Another card is refused whatever it would have got: the key is charged.
		body(101, timeoutCard), body(100, goodCard), body(100, declinedCard), body(100, faultCard),
		strings.Replace(alice, "ride-1", "ride-bob", 1), strings.Replace(alice, "rider-1", "bob", 1),
	} {
		rs[1].pay(t, "k", other).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	}
	db.counts(t, 0, 1, 1)

	first := rs[1].pay(t, "k", alice).paid(t)
	if !strings.Contains(first.Body, `"ride_id":"ride-1","rider_id":"rider-1"`) {
		t.Errorf("alice got %s", first)
	}
	spelled := strings.NewReplacer(`"EUR"`, `"\u0045UR"`, `"123"`, `"124"`, ",", " , ").Replace(alice)
	rs[0].pay(t, `"k"`, spelled).repeats(t, first)
	conflicts := rs[1].Metric(t, "payments_conflicts_total")
	if replays := rs[0].Metric(t, "payments_replays_total"); conflicts != 6 || replays != 1 {
		t.Errorf("%g conflicts, want 6, and %g replays, want 1", conflicts, replays)
	}
	db.counts(t, 1, 1, 1)
}

// Holders that fail one after the other make a caller wait for each of them: LOCK_WAIT bounds all of it together.
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

// Two cleaners delete expired records and the ledger's old settled entries, and keep what a repeat may need.
func TestCleanup(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	rs := startAll(t, dsn, 2, map[string]string{"CLEANUP_INTERVAL": "20ms"})
	live := rs[0].pay(t, "live", body(1, goodCard)).paid(t)
	apptest.Execute(t, db.DB, `INSERT INTO payments.idempotency_records
			(key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key, ride_id, rider_id,
			 amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, payment_id, response_status,
			 response_body, expires_at, created_at)
		SELECT 'old' || i, 'COMPLETED', sha256(''), 'x', gen_random_uuid(), now(), 'x', 'r', 'r', 1, 'EUR', 'visa', '4242',
			12, 2099, gen_random_uuid(), 201, '{}', now(), now()
		  FROM generate_series(1, 2000) i`,
		// Payments of longer than LEDGER_RETENTION ago.
		`WITH old AS (INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount,
				currency, status, card_brand, card_last4, card_exp_month, card_exp_year, created_at)
			SELECT gen_random_uuid(), 'old' || i, 'old' || i, 'r', 'r', 1, 'EUR', 'SUCCEEDED', 'visa', '4242', 1, 2030,
				now() - interval '31d' FROM generate_series(1, 1200) i
			RETURNING *)
		INSERT INTO payments.processor_charges
			(processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, created_at)
		SELECT processor_key, 1, 'EUR', sha256(''), sha256('r'), 'x', created_at FROM old`)
	waittest.Eventually(t, "both replicas have cleaned up", func() bool {
		deleted, ledger := "payments_cleanup_deleted_total", "payments_ledger_deleted_total"
		return rs[0].Metric(t, deleted)+rs[1].Metric(t, deleted) == 2000 &&
			rs[0].Metric(t, ledger)+rs[1].Metric(t, ledger) == 1200
	})
	rs[1].pay(t, "live", body(1, goodCard)).repeats(t, live)
	db.counts(t, 1201, 1, 1)
}

// Requests that failed, and are never repeated, are settled by a replica, although one's charge came late; one without
// a charge is asked about until it expires. The gauge counts them, and returns to zero.
func TestReconcile(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	rs := startAll(t, dsn, 2, map[string]string{"PROCESSOR_TIMEOUT": "300ms", "RECONCILE_AFTER": "50ms"})
	rs[0].pay(t, "charged", body(1, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	slow := start(t, dsn, map[string]string{"PROCESSOR_TIMEOUT": "300ms", "PROCESSOR_LATENCY": "600ms"})
	slow.pay(t, "late", body(2, goodCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	apptest.Execute(t, db.DB, `INSERT INTO payments.idempotency_records
			(key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key, ride_id, rider_id,
			 amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at, created_at)
		VALUES ('never charged', 'PROCESSING', sha256(''), 'x', gen_random_uuid(), now(), 'x', 'r', 'r',
			 1, 'EUR', 'visa', '4242', 12, 2099, now() + interval '2s', now())`)
	const unsettled = "payments_unsettled_charges"
	waittest.Eventually(t, "an open claim is counted", func() bool { return rs[0].Metric(t, unsettled) >= 1 })
	waittest.Eventually(t, "no claim is open", func() bool {
		const query = `SELECT NOT EXISTS (SELECT FROM payments.idempotency_records WHERE status = 'PROCESSING')`
		return apptest.One[bool](t, db, query)
	})
	waittest.Eventually(t, "none is counted", func() bool { return rs[0].Metric(t, unsettled) == 0 })
	db.counts(t, 2, 2, 2)
	paid := `payments_total{status="SUCCEEDED"}`
	if n := rs[0].Metric(t, paid) + rs[1].Metric(t, paid); n != 2 {
		t.Errorf("%g payments were settled, want 2", n)
	}
}

// A replica compares the records of both secrets while they rotate. Without a secret, which has to be allowed, the
// start warns. No secret is logged.
func TestFingerprintSecrets(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	old := start(t, dsn, nil)
	rotated := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": secretTwo, "FINGERPRINT_SECRET_PREVIOUS": secretOne})
	bare := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "", "ALLOW_BARE_FINGERPRINTS": "true"})
	first := old.pay(t, "k", body(1, goodCard)).paid(t)
	rotated.pay(t, "k", body(1, goodCard)).repeats(t, first)
	bare.pay(t, "k", body(1, goodCard)).want(t, 503, "NOT_APPLIED")
	db.counts(t, 1, 1, 1)

	const warning = "FINGERPRINT_SECRET is not set"
	for r, warnings := range map[*replica]int{old: 0, rotated: 0, bare: 1} {
		log := r.Log.String()
		if n := strings.Count(log, warning); n != warnings {
			t.Errorf("%d warnings, want %d: %s", n, warnings, log)
		}
		if strings.Contains(log, secretOne) || strings.Contains(log, secretTwo) {
			t.Errorf("a secret is logged: %s", log)
		}
	}
}

// A replica that would protect no card is not built; the one sentence does not hold the secret.
func TestStartWithoutASecret(t *testing.T) {
	t.Parallel()
	const short = "31 bytes are one byte too short"
	for _, tc := range []struct{ secret, allow, want string }{
		{"", "", "FINGERPRINT_SECRET is not set: give it 32 bytes or more"},
		{"", "false", "or set ALLOW_BARE_FINGERPRINTS=true"},
		{short, "", "FINGERPRINT_SECRET has fewer than 32 bytes"},
		{short, "true", "FINGERPRINT_SECRET has fewer than 32 bytes"},
	} {
		cfg := apptest.Config[app.Config](t, "postgres://u@h/db?sslmode=disable", map[string]string{
			"FINGERPRINT_SECRET": tc.secret, "ALLOW_BARE_FINGERPRINTS": tc.allow,
		})
		_, err := app.Service().New(t.Context(), cfg, chassis.Process{Output: io.Discard})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), short) {
			t.Errorf("with %q, allowed %q: %v; want %s", tc.secret, tc.allow, err, tc.want)
		}
	}
}
