package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// The simulator's cards.
const (
	goodCard     = "4242424242424242"
	declinedCard = "4000000000000002"
	faultCard    = "4000000000000119"
	timeoutCard  = "4000000000000259"
)

// replica is one running App.
type replica struct {
	*apptest.Replica

	api string
}

// start runs a replica on dsn until the test ends or Stop is called.
func start(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	cfg := apptest.Config[app.Config](t, dsn, map[string]string{"LOG_REQUESTS": "all", "FINGERPRINT_SECRET": "for tests"}, environ)
	var log apptest.Log
	a, err := app.New(t.Context(), cfg, app.Process{Environ: environ, Output: &log})
	if err != nil {
		t.Fatal(err)
	}
	r := apptest.Start(t, a, &log)
	return &replica{r, "http://" + a.Addr().String() + "/v1/payments"}
}

// startAll runs n replicas.
func startAll(t *testing.T, dsn string, n int, environ map[string]string) []*replica {
	t.Helper()
	all := make([]*replica, n)
	for i := range all {
		all[i] = start(t, dsn, environ)
	}
	return all
}

// answer is what came back.
type answer struct {
	apptest.Answer

	replayed bool
}

// pay sends a payment.
func (r *replica) pay(t *testing.T, key, body string) answer {
	t.Helper()
	a := apptest.Send(t, http.MethodPost, r.api, body, map[string]string{"Idempotency-Key": key, "Content-Type": "application/json"})
	return answer{a, a.Header.Get("Idempotent-Replayed") == "true"}
}

// body is a request to pay.
func body(amount int, card string) string {
	return fmt.Sprintf(`{"ride_id":"ride-1","rider_id":"rider-1","amount":%d,"currency":"EUR",`+
		`"card":{"number":"%s","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount, card)
}

// want demands a status and, below 400, a status in the body.
func (a answer) want(t *testing.T, status int, codeOrStatus string) answer {
	t.Helper()
	got := a.Code
	if a.Status < http.StatusBadRequest {
		var p struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		got = p.Status
	}
	if a.Status != status || got != codeOrStatus {
		t.Fatalf("got %s, want %d %s", a, status, codeOrStatus)
	}
	return a
}

// base is a look at the database behind the service's back.
type base struct{ db *sqlx.DB }

func open(t *testing.T, dsn string) base {
	t.Helper()
	return base{apptest.Open(t, dsn)}
}

// counts demands how many payments, charges and records there are.
func (b base) counts(t *testing.T, payments, charges, records int) {
	t.Helper()
	var got struct{ Payments, Charges, Records int }
	err := b.db.GetContext(t.Context(), &got, `SELECT (SELECT count(*) FROM payments.payments) AS payments,
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL) AS charges,
		(SELECT count(*) FROM payments.idempotency_records) AS records`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Payments != payments || got.Charges != charges || got.Records != records {
		t.Errorf("%d payments, %d charges, %d records; want %d, %d, %d",
			got.Payments, got.Charges, got.Records, payments, charges, records)
	}
}

func (b base) execute(t *testing.T, statement string) {
	t.Helper()
	apptest.Execute(t, b.db, statement)
}
