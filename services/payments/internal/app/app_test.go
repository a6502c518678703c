package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// What is the same request, and what is another one.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := start(t, dsn, nil)
	first := r.pay(t, "k", body(1250, goodCard)).want(t, 201, "SUCCEEDED")
	for name, same := range map[string]string{
		"order and white space": "{ \"card\" : {\"cvc\":\"123\",\n\"exp_year\":2099,\"number\":\"4242424242424242\",\"exp_month\": 12 },\t" +
			"\"currency\":\"EUR\",\"amount\":1250,\"rider_id\":\"rider-1\",\"ride_id\":\"ride-1\"}  ",
		"escapes": strings.Replace(body(1250, goodCard), `"EUR"`, `"\u0045UR"`, 1),
	} {
		if a := r.pay(t, "k", same).want(t, 201, "SUCCEEDED"); !a.replayed || a.Body != first.Body {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := r.pay(t, `"k"`, body(1250, goodCard)); !a.replayed || a.Body != first.Body {
		t.Errorf("the key in quotes: %s", a)
	}
	for name, change := range map[string][2]string{
		"ride": {"ride-1", "ride-2"}, "rider": {"rider-1", "rider-2"}, "amount": {"1250", "1251"}, "currency": {"EUR", "USD"},
		"number": {goodCard, "4000056655665556"}, "month": {`"exp_month":12`, `"exp_month":11`}, "year": {"2099", "2098"},
		"cvc": {`"123"`, `"124"`},
	} {
		a := r.pay(t, "k", strings.Replace(body(1250, goodCard), change[0], change[1], 1))
		if a.Status != 409 || a.Code != "IDEMPOTENCY_KEY_CONFLICT" || a.Header.Get("Retry-After") != "" {
			t.Errorf("another %s: %s", name, a)
		}
	}
	// Other spellings of a number are no whole numbers here: refused before any key is looked at.
	for _, spelling := range []string{"1250.0", "1.25e3", `"1250"`, "01250"} {
		if a := r.pay(t, "k", strings.Replace(body(1250, goodCard), "1250", spelling, 1)); a.Status != 400 {
			t.Errorf("amount %s: %s", spelling, a)
		}
	}
	open(t, dsn).counts(t, 1, 1, 1)
	if n := r.Metric(t, "payments_conflicts_total"); n != 8 {
		t.Errorf("%g conflicts were counted, want 8", n)
	}
}

// A processor slower than LOCK_WAIT: the second request hears so in time, on the
// same replica and on another, and a later one gets the stored answer.
func TestSlowProcessor(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	rs := startAll(t, dsn, 2, map[string]string{"PROCESSOR_LATENCY": "2500ms", "LOCK_WAIT": "300ms"})
	first := make(chan answer, 1)
	go func() { first <- rs[0].pay(t, "k", body(1, goodCard)) }()
	apptest.WaitUntil(t, "the first request has its transaction", func() bool { return rs[0].Metric(t, "payments_transactions_open") == 1 })
	apptest.WaitUntil(t, "its claim is made", func() bool { return rs[0].Metric(t, "payments_transaction_oldest_seconds") > 0.05 })
	for i, r := range rs {
		a := r.pay(t, "k", body(1, goodCard)).want(t, 409, "PAYMENT_PROCESSING")
		if a.Took < 300*time.Millisecond || a.Took > 1300*time.Millisecond || a.Header.Get("Retry-After") == "" {
			t.Errorf("replica %d: %s after %s, Retry-After %q", i, a, a.Took, a.Header.Get("Retry-After"))
		}
	}
	paid := (<-first).want(t, 201, "SUCCEEDED")
	for _, r := range rs {
		if a := r.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED"); !a.replayed || a.Body != paid.Body {
			t.Errorf("afterwards: %s", a)
		}
	}
	if n := rs[1].Metric(t, `rowlock_lock_wait_seconds_count{lock="key",where="database"}`); n != 1 {
		t.Errorf("%g waits in the database, want 1", n)
	}
	for i, reason := range []string{"queue_timeout", "lock_timeout"} {
		if n := rs[i].Metric(t, `rowlock_lock_conflicts_total{lock="key",reason="`+reason+`"}`); n != 1 {
			t.Errorf("replica %d: %g times %s, want 1", i, n, reason)
		}
	}
	if n := rs[0].Metric(t, "payments_transactions_open"); n != 0 {
		t.Errorf("%g transactions are open at the end", n)
	}
	open(t, dsn).counts(t, 1, 1, 1)
}

// 504 after the charge: another amount is refused, the same request settles.
func TestTimeoutAfterTheCharge(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	rs, db := startAll(t, dsn, 2, map[string]string{"PROCESSOR_TIMEOUT": "1s"}), open(t, dsn)
	rs[0].pay(t, "k", body(100, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	db.counts(t, 0, 1, 0)
	rs[1].pay(t, "k", body(101, timeoutCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	// Another card is refused whatever it would have got: the key is charged.
	for _, card := range []string{goodCard, declinedCard, faultCard} {
		rs[0].pay(t, "k", body(100, card)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	}
	db.counts(t, 0, 1, 0)
	rs[1].pay(t, "k", body(100, timeoutCard)).want(t, 201, "SUCCEEDED")
	rs[0].pay(t, "k", body(100, timeoutCard)).want(t, 201, "SUCCEEDED")
	db.counts(t, 1, 1, 1)
}

// An expired key is new: a second payment, a second charge, whether or not the
// cleaner has been there. N requests racing for it make one.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	for name, cleaned := range map[string]bool{"before the cleanup": false, "after the cleanup": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			rs, db := startAll(t, dsn, 2, nil), open(t, dsn)
			first := rs[0].pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED")
			if db.execute(t, `UPDATE payments.idempotency_records SET expires_at = clock_timestamp()`); cleaned {
				db.execute(t, `DELETE FROM payments.idempotency_records`)
			}
			answers := make([]answer, 20)
			apptest.Together(len(answers), func(i int) { answers[i] = rs[i%2].pay(t, "k", body(1, goodCard)) })
			fresh := 0
			for _, a := range answers {
				if a.want(t, 201, "SUCCEEDED").Body != answers[0].Body || a.Body == first.Body {
					t.Errorf("an answer is another's or the expired one: %s", a)
				}
				if !a.replayed {
					fresh++
				}
			}
			if fresh != 1 {
				t.Errorf("%d payments of the expired key, want 1", fresh)
			}
			db.counts(t, 2, 2, 1)
		})
	}
}

// Two cleaners beside traffic: expired records go, live ones stay, nobody waits.
func TestCleanup(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := open(t, dsn)
	rs := startAll(t, dsn, 2, map[string]string{"CLEANUP_INTERVAL": "20ms"})
	live := rs[0].pay(t, "live", body(1, goodCard)).want(t, 201, "SUCCEEDED")
	db.execute(t, `INSERT INTO payments.idempotency_records (key, status, request_fingerprint, fingerprint_version, expires_at)
		SELECT 'old' || i, 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', now() FROM generate_series(1, 2000) i`)
	// A charge that was left alone longer than the keys live, one that is young, one that is settled.
	db.execute(t, `INSERT INTO payments.processor_charges (processor_key, amount, currency, card_fingerprint, fingerprint_version, created_at)
		SELECT k, 1, 'EUR', decode(repeat('00', 32), 'hex'), 'x', at FROM (VALUES ('lost', now() - interval '25h'), ('young', now())) v (k, at)`)
	db.execute(t, `UPDATE payments.processor_charges SET created_at = now() - interval '25h'
		WHERE processor_key = (SELECT processor_key FROM payments.payments)`)
	const meanwhile = 40 // payments beside the cleaners, which wait for nobody and nobody for them
	apptest.Together(meanwhile, func(i int) { rs[i%2].pay(t, fmt.Sprint("new", i), body(1, goodCard)).want(t, 201, "SUCCEEDED") })
	apptest.WaitUntil(t, "both replicas have cleaned up", func() bool {
		return rs[0].Metric(t, "payments_cleanup_deleted_total")+rs[1].Metric(t, "payments_cleanup_deleted_total") == 2000 &&
			rs[0].Metric(t, "payments_unsettled_charges") == 1 && rs[1].Metric(t, "payments_unsettled_charges") == 1
	})
	if a := rs[1].pay(t, "live", body(1, goodCard)); !a.replayed || a.Body != live.Body {
		t.Errorf("the live key: %s", a)
	}
	db.counts(t, 1+meanwhile, 3+meanwhile, 1+meanwhile)
}

func TestProcessorFaultsAndDeclines(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := start(t, dsn, nil), open(t, dsn)
	for range 2 {
		r.pay(t, "fault", body(1, faultCard)).want(t, 502, "PROCESSOR_ERROR")
	}
	db.counts(t, 0, 0, 0)
	// Nothing is stored, so the key is free for a corrected request.
	r.pay(t, "fault", body(1, goodCard)).want(t, 201, "SUCCEEDED")
	declined := r.pay(t, "declined", body(1, declinedCard)).want(t, 201, "DECLINED")
	if !strings.Contains(declined.Body, `"decline_code":"card_declined"`) {
		t.Errorf("%s", declined)
	}
	if a := r.pay(t, "declined", body(1, declinedCard)); !a.replayed || a.Body != declined.Body {
		t.Errorf("the repeat: %s", a)
	}
	if a := r.pay(t, "funds", body(1, "4000000000009995")).want(t, 201, "DECLINED"); !strings.Contains(a.Body, "insufficient_funds") {
		t.Errorf("%s", a)
	}
	db.counts(t, 3, 1, 3)
	if n := r.Metric(t, `payments_total{status="DECLINED"}`); n != 2 {
		t.Errorf("%g declined payments were counted", n)
	}
}

// The processor is slower than PROCESSOR_TIMEOUT: no charge, no payment.
func TestTimeoutBeforeTheCharge(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := start(t, dsn, map[string]string{"PROCESSOR_TIMEOUT": "100ms", "PROCESSOR_LATENCY": "10s"})
	if a := r.pay(t, "k", body(1, goodCard)).want(t, 504, "PROCESSOR_TIMEOUT"); a.Took > 2*time.Second {
		t.Errorf("it took %s", a.Took)
	}
	open(t, dsn).counts(t, 0, 0, 0)
}

func TestReadBack(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	var ids []string
	for i := range 5 {
		a := r.pay(t, fmt.Sprint("k", i), body(i+1, goodCard)).want(t, 201, "SUCCEEDED")
		if got := apptest.Get(t, strings.TrimSuffix(r.api, "/v1/payments")+a.Header.Get("Location")); got.Status != 200 || got.Body != a.Body {
			t.Errorf("GET answers %s, POST %s", got, a)
		}
		var p struct{ ID string }
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	var listed []string
	after := ""
	for range 3 {
		var page struct {
			Payments  []struct{ ID string } `json:"payments"`
			NextAfter string                `json:"next_after"`
		}
		a := apptest.Get(t, r.api+"?ride_id=ride-1&limit=2&after="+after)
		if err := json.Unmarshal([]byte(a.Body), &page); a.Status != 200 || err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		for _, p := range page.Payments {
			listed = append(listed, p.ID)
		}
		after = page.NextAfter
	}
	if len(listed) != 5 || listed[0] != ids[4] || listed[4] != ids[0] || after != "" {
		t.Errorf("listed %v, paid %v, next %q", listed, ids, after)
	}
}

// SIGTERM (here: the end of the context) while a card is being charged: the
// request is finished and answered.
func TestDrainFinishesThePayment(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := start(t, dsn, map[string]string{"PROCESSOR_LATENCY": "500ms"})
	paid := make(chan answer, 1)
	go func() { paid <- r.pay(t, "k", body(1, goodCard)) }()
	apptest.WaitUntil(t, "the payment is under way", func() bool { return r.Metric(t, "payments_transactions_open") == 1 })
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	(<-paid).want(t, 201, "SUCCEEDED")
	open(t, dsn).counts(t, 1, 1, 1)
}

func TestStartRefusesInOneSentence(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	for name, env := range map[string]map[string]string{
		"no database":                      {"DATABASE_URL": ""},
		"lock wait beyond the statement":   {"LOCK_WAIT": "9s"},
		"processor beyond the request":     {"PROCESSOR_TIMEOUT": "8s"},
		"too few connections":              {"DB_MAX_OPEN_CONNS": "2"},
		"previous secret without a secret": {"FINGERPRINT_SECRET_PREVIOUS": "hush"},
		"negative latency":                 {"PROCESSOR_LATENCY": "-1s"},
		"pooler without its flag":          {"DB_POOLER": "transaction"},
	} {
		full := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.New(t.Context(), cfg, app.Process{Output: io.Discard})
		}
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWarnsOfBareFingerprints(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	const warning = "FINGERPRINT_SECRET is not set"
	if n := strings.Count(start(t, dsn, map[string]string{"FINGERPRINT_SECRET": ""}).Log.String(), warning); n != 1 {
		t.Errorf("without a secret: %d warnings, want 1", n)
	}
	if log := start(t, dsn, nil).Log.String(); strings.Contains(log, warning) || strings.Contains(log, "for tests") {
		t.Errorf("with a secret: %s", log)
	}
}

// A secret is rotated: records made under the old one are still compared.
func TestSecretRotation(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	old := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "one", "FINGERPRINT_SECRET_PREVIOUS": "two"})
	rotated := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "two", "FINGERPRINT_SECRET_PREVIOUS": "one"})
	stranger := start(t, dsn, map[string]string{"FINGERPRINT_SECRET": "three"})
	for key, r := range map[string]*replica{"a": old, "b": rotated} {
		first := r.pay(t, key, body(1, goodCard)).want(t, 201, "SUCCEEDED")
		for _, other := range []*replica{old, rotated} {
			if a := other.pay(t, key, body(1, goodCard)); !a.replayed || a.Body != first.Body {
				t.Errorf("%s: %s", key, a)
			}
			other.pay(t, key, body(2, goodCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
		}
		stranger.pay(t, key, body(1, goodCard)).want(t, 503, "NOT_APPLIED")
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	p := app.Program()
	if p.Name != "payments" || len(p.Commands) < 2 {
		t.Fatalf("%+v", p)
	}
	dsn := dbtest.Empty(t)
	env := map[string]string{"DATABASE_URL": dsn}
	for _, c := range p.Commands {
		if c.Name == "migrate" {
			if err := c.Run(t.Context(), env); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, dsn).counts(t, 0, 0, 0)
	if err := p.Commands[0].Run(t.Context(), map[string]string{"DATABASE_URL": dsn, "DB_POOLER": "transaction"}); err == nil {
		t.Error("serve behind a pooler without its flag started")
	}
}
