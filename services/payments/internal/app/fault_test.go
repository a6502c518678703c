package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// The connection is cut after COMMIT was sent: the answer is never a false
// "failed", and a repeat gets the one true answer.
func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy := faultproxy.New(t, dsn)
			cut, witness := start(t, proxy.DSN(dsn), nil), start(t, dsn, nil)
			const keys = 5
			for i := range keys {
				key := fmt.Sprint("k", i)
				proxy.Cut(faultproxy.AfterCommit, how)
				first := cut.pay(t, key, body(1, goodCard)).want(t, 201, "SUCCEEDED")
				if again := witness.pay(t, key, body(1, goodCard)); !again.replayed || again.Body != first.Body {
					t.Errorf("the repeat: %s, first %s", again, first)
				}
			}
			if proxy.Cuts() < keys {
				t.Errorf("%d cuts: the test proved nothing", proxy.Cuts())
			}
			open(t, dsn).counts(t, keys, keys, keys)
		})
	}
}

// The same with a key that lives shorter than the request takes: its record has
// expired when the outcome is looked up, and that must not make it a new payment.
func TestAmbiguousCommitOfAShortLivedKey(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r := start(t, proxy.DSN(dsn), map[string]string{"IDEMPOTENCY_TTL": "100ms", "PROCESSOR_LATENCY": "300ms"})
	proxy.Cut(faultproxy.AfterCommit, faultproxy.RST, faultproxy.Times(1))
	r.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED")
	if proxy.Cuts() != 1 {
		t.Errorf("%d cuts: the test proved nothing", proxy.Cuts())
	}
	open(t, dsn).counts(t, 1, 1, 1)
}

// The server is killed right when COMMIT has been done and its reply is lost:
// nobody can be asked in time, so the answer is "unknown"; a repeat after the
// restart gets the one true answer.
func TestAmbiguousCommitAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	cut, witness := start(t, proxy.DSN(dsn), nil), start(t, dsn, nil)
	cut.pay(t, "warm", body(1, goodCard)).want(t, 201, "SUCCEEDED")
	proxy.Cut(faultproxy.AfterCommit, faultproxy.RST)
	proxy.Refuse() // no new connection to look at the outcome
	answered := make(chan answer, 1)
	go func() { answered <- cut.pay(t, "k", body(1, goodCard)) }()
	apptest.WaitUntil(t, "the reply is lost", func() bool { return proxy.Cuts() == 1 })
	proxy.Drop(faultproxy.RST) // nor an old one
	(<-answered).want(t, 500, "OUTCOME_UNKNOWN")
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*replica{witness, cut} {
		if a := r.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED"); !a.replayed {
			t.Errorf("the repeat paid again: %s", a)
		}
	}
	open(t, dsn).counts(t, 2, 2, 2)
}

// COMMIT never reaches the server, and every statement of a payment loses its
// reply once: the answer says what is true, and the repeat settles with one charge.
func TestEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		when   faultproxy.When
		text   string
		status int
		code   string
		charge int // how many charges there are before the repeat
	}{
		"finished key": {faultproxy.AfterStatement, "status = 'COMPLETED' AND expires_at", 201, "SUCCEEDED", 1}, // a read is sent again
		"claim":        {faultproxy.AfterStatement, "INSERT INTO payments.idempotency_records", 503, "DATABASE_UNAVAILABLE", 0},
		"count":        {faultproxy.AfterStatement, "SELECT count(*) FROM payments.payments", 503, "DATABASE_UNAVAILABLE", 0},
		"charge":       {faultproxy.AfterStatement, "INSERT INTO payments.processor_charges", 502, "PROCESSOR_ERROR", 1},
		"charge lost":  {faultproxy.BeforeStatement, "INSERT INTO payments.processor_charges", 502, "PROCESSOR_ERROR", 0},
		"payment":      {faultproxy.AfterStatement, "INSERT INTO payments.payments", 201, "SUCCEEDED", 1}, // a second transaction mends it
		"commit":       {faultproxy.AfterCommit, "", 201, "SUCCEEDED", 1},
		"commit lost":  {faultproxy.BeforeCommit, "", 201, "SUCCEEDED", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy := faultproxy.New(t, dsn)
			r, db := start(t, proxy.DSN(dsn), nil), open(t, dsn)
			proxy.Cut(tc.when, faultproxy.RST, faultproxy.Matching(tc.text))
			if a := r.pay(t, "k", body(1, goodCard)).want(t, tc.status, tc.code); a.replayed {
				t.Errorf("%s is marked as replayed", a)
			}
			stored := 0
			if tc.status == 201 {
				stored = 1
			}
			db.counts(t, stored, tc.charge, stored)
			r.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED")
			db.counts(t, 1, 1, 1)
			if proxy.Cuts() != 1 {
				t.Errorf("%d cuts", proxy.Cuts())
			}
		})
	}
}

// A deadlock or a serialization failure makes the transaction run again, charge
// included: the processor's key keeps it at one.
func TestTransactionRunAgain(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := start(t, dsn, nil), open(t, dsn)
	// The first two inserts of a payment fail as a serialization failure does.
	db.execute(t, `CREATE SEQUENCE payments.failures`)
	db.execute(t, `CREATE FUNCTION payments.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('payments.failures') <= 2 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`)
	db.execute(t, `CREATE TRIGGER fail BEFORE INSERT ON payments.payments FOR EACH ROW EXECUTE FUNCTION payments.fail()`)
	if a := r.pay(t, "k", body(1, goodCard)).want(t, 201, "SUCCEEDED"); a.replayed {
		t.Errorf("%s is marked as replayed", a)
	}
	db.counts(t, 1, 1, 1)
	if n := r.Metric(t, `rowlock_retries_total{pool="main",sqlstate="40001"}`); n != 2 {
		t.Errorf("%g retries, want 2", n)
	}
}

// The network swallows everything: the answer comes within the request's time and
// the five seconds after which the driver gives up asking the server to cancel.
func TestStalledDatabase(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r := start(t, proxy.DSN(dsn), map[string]string{
		"DB_LOCK_TIMEOUT": "500ms", "DB_STATEMENT_TIMEOUT": "1s", "REQUEST_TIMEOUT": "2s", "LOCK_WAIT": "400ms", "PROCESSOR_TIMEOUT": "500ms",
	})
	r.pay(t, "warm", body(1, goodCard)).want(t, 201, "SUCCEEDED")
	proxy.Pause()
	if a := r.pay(t, "k", body(1, goodCard)); a.Status != 503 || a.Took > 9*time.Second {
		t.Errorf("%s after %s", a, a.Took)
	}
	proxy.Resume()
	apptest.WaitUntil(t, "it pays again", func() bool { return r.pay(t, "k", body(1, goodCard)).Status == 201 })
	open(t, dsn).counts(t, 2, 2, 2)
}
