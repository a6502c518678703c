package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Every statement of a payment loses its reply, or never reaches the server: the payment is made all the same, the
// repeat gets the same answer, and there is one charge.
func TestEveryReplyLost(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"INSERT INTO payments.idempotency_records", "INSERT INTO payments.processor_charges",
		"INSERT INTO payments.payments",
	} {
		for name, when := range map[string]faultproxy.When{
			"reply": faultproxy.AfterStatement, "statement": faultproxy.BeforeStatement,
		} {
			t.Run(statement+" "+name, func(t *testing.T) {
				t.Parallel()
				dsn, db := open(t)
				proxy := faultproxy.New(t, dsn)
				r := start(t, proxy.DSN(dsn), nil)
				const times = 2
				proxy.Cut(when, faultproxy.RST, faultproxy.Matching(statement), faultproxy.Times(times))
				first := r.pay(t, "k", body(1, goodCard)).paid(t)
				r.pay(t, "k", body(1, goodCard)).repeats(t, first)
				db.counts(t, 1, 1, 1)
				if n := proxy.Cuts(); n == 0 || n > times {
					t.Errorf("%d were cut", n)
				}
			})
		}
	}
}

// The reply to the settlement is lost and the server cannot be reached any more: the answer is
// "unknown", and a repeat on another replica gets the one true answer.
func TestAmbiguousSettlementAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	proxy := faultproxy.New(t, dsn)
	cut, witness := start(t, proxy.DSN(dsn), map[string]string{
		"DB_LOCK_TIMEOUT": "500ms", "DB_STATEMENT_TIMEOUT": "1s", "REQUEST_TIMEOUT": "3s", "LOCK_WAIT": "400ms",
		"PROCESSOR_TIMEOUT": "1s",
	}), start(t, dsn, nil)
	cut.pay(t, "warm", body(1, goodCard)).paid(t)
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO payments.payments"))
	proxy.Refuse() // no new connection to find out
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
