package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/waittest"
)

// Every statement of a payment loses its reply once, or never reaches the server: the
// answer is never a false "failed", a repeat gets the one true answer, and there is one
// charge.
func TestEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	const claim, charge = "INSERT INTO payments.idempotency_records", "INSERT INTO payments.processor_charges"
	const store = "INSERT INTO payments.payments"
	for name, tc := range map[string]struct {
		when    faultproxy.When
		how     faultproxy.How
		text    string
		times   int
		status  int
		code    string
		charges int // before the repeat
	}{
		// A claim and a settlement recognise themselves.
		"claim RST":     {faultproxy.AfterStatement, faultproxy.RST, claim, 1, 201, "SUCCEEDED", 1},
		"claim FIN":     {faultproxy.AfterStatement, faultproxy.FIN, claim, 1, 201, "SUCCEEDED", 1},
		"claim lost":    {faultproxy.BeforeStatement, faultproxy.RST, claim, 1, 201, "SUCCEEDED", 1},
		"charge":        {faultproxy.AfterStatement, faultproxy.RST, charge, 1, 504, "PROCESSOR_TIMEOUT", 1},
		"charge lost":   {faultproxy.BeforeStatement, faultproxy.RST, charge, 1, 504, "PROCESSOR_TIMEOUT", 0},
		"payment RST":   {faultproxy.AfterStatement, faultproxy.RST, store, 1, 201, "SUCCEEDED", 1},
		"payment FIN":   {faultproxy.AfterStatement, faultproxy.FIN, store, 1, 201, "SUCCEEDED", 1},
		"payment twice": {faultproxy.BeforeStatement, faultproxy.RST, store, 2, 500, "OUTCOME_UNKNOWN", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, db := open(t)
			proxy := faultproxy.New(t, dsn)
			r := start(t, proxy.DSN(dsn), nil)
			proxy.Cut(tc.when, tc.how, faultproxy.Matching(tc.text), faultproxy.Times(tc.times))
			first := r.pay(t, "k", body(1, goodCard)).want(t, tc.status, tc.code)
			if tc.status == 201 {
				db.counts(t, 1, tc.charges, 1)
				r.pay(t, "k", body(1, goodCard)).repeats(t, first)
			} else {
				db.counts(t, 0, tc.charges, 1)
				r.pay(t, "k", body(1, goodCard)).paid(t)
			}
			db.counts(t, 1, 1, 1)
			if proxy.Cuts() != tc.times || first.replayed {
				t.Errorf("%d cuts, want %d; replayed %t", proxy.Cuts(), tc.times, first.replayed)
			}
		})
	}
}

// The reply to the settlement is lost and the server cannot be reached any more: the answer is
// "unknown", and a repeat on another replica gets the one true answer.
func TestAmbiguousSettlementAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	proxy := faultproxy.New(t, dsn)
	cut, witness := start(t, proxy.DSN(dsn), nil), start(t, dsn, nil)
	cut.pay(t, "warm", body(1, goodCard)).paid(t)
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO payments.payments"))
	proxy.Refuse() // no new connection to look at the outcome
	answered := make(chan answer, 1)
	go func() { answered <- cut.pay(t, "k", body(1, goodCard)) }()
	waittest.Eventually(t, "the reply is lost", func() bool { return proxy.Cuts() == 1 })
	proxy.Drop(faultproxy.RST) // nor an old one
	(<-answered).want(t, 500, "OUTCOME_UNKNOWN")
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	if a := witness.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED"); !a.replayed {
		t.Errorf("the repeat paid again: %s", a)
	}
	db.counts(t, 2, 2, 2)
}

// A serialization failure makes the settlement run again.
func TestSettlementRunAgain(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	r := start(t, dsn, nil)
	// The first two inserts of a payment fail as a serialization failure does.
	apptest.Execute(t, db.DB, `CREATE SEQUENCE payments.failures`,
		`CREATE FUNCTION payments.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('payments.failures') <= 2 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER fail BEFORE INSERT ON payments.payments FOR EACH ROW EXECUTE FUNCTION payments.fail()`)
	r.pay(t, "k", body(1, goodCard)).paid(t)
	db.counts(t, 1, 1, 1)
	if n := r.Metric(t, `rowlock_retries_total{pool="main",sqlstate="40001"}`); n != 2 {
		t.Errorf("%g retries, want 2", n)
	}
}

// The network drops everything: the answer comes although the database's never does, and
// payments go on afterwards.
func TestStalledDatabase(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	proxy := faultproxy.New(t, dsn)
	r := start(t, proxy.DSN(dsn), map[string]string{
		"DB_LOCK_TIMEOUT": "500ms", "DB_STATEMENT_TIMEOUT": "1s", "REQUEST_TIMEOUT": "2s",
		"LOCK_WAIT": "400ms", "PROCESSOR_TIMEOUT": "500ms",
	})
	// The first one opens connections, for which half a second is too short on a busy machine.
	waittest.Eventually(t, "it pays", func() bool { return r.pay(t, "warm", body(1, goodCard)).Status == 201 })
	proxy.Pause()
	if a := r.pay(t, "k", body(1, goodCard)); a.Status != 503 {
		t.Errorf("%s after %s", a, a.Took)
	}
	proxy.Resume()
	waittest.Eventually(t, "it pays again", func() bool { return r.pay(t, "k", body(1, goodCard)).Status == 201 })
	db.counts(t, 2, 2, 2)
}
