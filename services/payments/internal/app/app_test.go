package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
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
	if n := r.Metric(t, "payments_conflicts_total"); n != 1 || a.Header.Get("Retry-After") != "" {
		t.Errorf("%g conflicts were counted, want 1; %v", n, a.Header)
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

// An expired key is new: a second payment and a second charge, before the cleanup and
// after it.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, nil)
	for i, expire := range []string{
		"", `UPDATE payments.idempotency_records SET expires_at = clock_timestamp()`,
		`DELETE FROM payments.idempotency_records`,
	} {
		apptest.Execute(t, db.DB, expire)
		r.pay(t, "k", body(1, goodCard)).paid(t)
		db.counts(t, i+1, i+1, 1)
	}
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

// A fault stores nothing and leaves the key free; a decline is stored.
func TestProcessorFaultsAndDeclines(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, nil)
	r.pay(t, "fault", body(1, faultCard)).want(t, 502, "PROCESSOR_ERROR")
	db.counts(t, 0, 0, 0)
	r.pay(t, "fault", body(1, goodCard)).paid(t)
	declined := r.pay(t, "declined", body(1, declinedCard)).want(t, 201, "DECLINED")
	if !strings.Contains(declined.Body, `"decline_code":"card_declined"`) {
		t.Errorf("%s", declined)
	}
	r.pay(t, "declined", body(1, declinedCard)).repeats(t, declined)
	db.counts(t, 2, 1, 2)
	if n := r.Metric(t, `payments_total{status="DECLINED"}`); n != 1 {
		t.Errorf("%g declined payments were counted", n)
	}
}

func TestReadBack(t *testing.T) {
	t.Parallel()
	dsn, _ := open(t)
	r := start(t, dsn, nil)
	var ids []string
	for i := range 2 {
		a := r.pay(t, fmt.Sprint("k", i), body(i+1, goodCard)).paid(t)
		got := apptest.Get(t, strings.TrimSuffix(r.api, "/v1/payments")+a.Header.Get("Location"))
		if got.Status != 200 || got.Body != a.Body {
			t.Errorf("GET answers %s, POST %s", got, a)
		}
		var p struct{ ID string }
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	var page struct{ Payments []struct{ ID string } }
	a := apptest.Get(t, r.api+"?ride_id=ride-1")
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || len(page.Payments) != 2 ||
		page.Payments[0].ID != ids[1] || page.Payments[1].ID != ids[0] {
		t.Errorf("paid %v, listed %s, %v", ids, a, err)
	}
}

// SIGTERM (here: the end of the context) while a card is being charged: the
// request is finished and answered.
func TestDrainFinishesThePayment(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, map[string]string{"PROCESSOR_LATENCY": "500ms"})
	paid := make(chan answer, 1)
	go func() { paid <- r.pay(t, "k", body(1, goodCard)) }()
	waittest.Eventually(t, "the payment is in flight", func() bool {
		return r.Metric(t, "payments_transactions_open") == 1
	})
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	(<-paid).paid(t)
	db.counts(t, 1, 1, 1)
}

func TestStartRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	dsn, _ := open(t)
	for name, env := range map[string]map[string]string{
		"lock wait beyond the statement":   {"LOCK_WAIT": "9s"},
		"processor beyond the request":     {"PROCESSOR_TIMEOUT": "8s"},
		"too few connections":              {"DB_MAX_OPEN_CONNS": "2"},
		"previous secret without a secret": {"FINGERPRINT_SECRET_PREVIOUS": "hush"},
	} {
		full := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.Service().New(t.Context(), cfg, chassis.Process{Output: io.Discard})
		}
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
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
