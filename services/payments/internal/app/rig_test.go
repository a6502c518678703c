package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// The simulator's cards.
const (
	goodCard     = "4242424242424242"
	declinedCard = "4000000000000002"
	faultCard    = "4000000000000119"
	timeoutCard  = "4000000000000259"
)

// Secrets of the least length.
const (
	secretOne = "the first secret, of 32 bytes..."
	secretTwo = "the second secret, of 32 bytes.."
)

// replica is a running replica.
type replica struct {
	*apptest.Replica

	api string
}

// start runs a replica on dsn until the test ends or Stop is called. Later variables win.
func start(t *testing.T, dsn string, environs ...map[string]string) *replica {
	t.Helper()
	defaults := map[string]string{"LOG_REQUESTS": "all", "FINGERPRINT_SECRET": secretOne}
	r := apptest.Run(t, app.Service(), dsn, append([]map[string]string{defaults}, environs...)...)
	return &replica{r, r.API + "/v1/payments"}
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

// answer is the response to a payment.
type answer struct {
	apptest.Answer

	replayed bool
}

// pay sends a payment.
func (r *replica) pay(t *testing.T, key, body string) answer {
	t.Helper()
	header := map[string]string{"Idempotency-Key": key, "Content-Type": "application/json"}
	a := apptest.Send(t, http.MethodPost, r.api, body, header)
	return answer{a, a.Header.Get("Idempotent-Replayed") == "true"}
}

// body returns a request to pay.
func body(amount int, card string) string {
	return fmt.Sprintf(`{"ride_id":"ride-1","rider_id":"rider-1","amount":%d,"currency":"EUR",`+
		`"card":{"number":"%s","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount, card)
}

// check returns an error unless the answer has the status and, below 400, the payment
// this status, else the problem this code.
func (a answer) check(status int, codeOrStatus string) error {
	got := a.Code
	if a.Status < http.StatusBadRequest {
		var p struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		got = p.Status
	}
	if a.Status != status || got != codeOrStatus {
		return fmt.Errorf("got %s, want %d %s", a, status, codeOrStatus)
	}
	return nil
}

func (a answer) want(t *testing.T, status int, codeOrStatus string) answer {
	t.Helper()
	if err := a.check(status, codeOrStatus); err != nil {
		t.Fatal(err)
	}
	return a
}

// paid demands a fresh payment that succeeded.
func (a answer) paid(t *testing.T) answer {
	t.Helper()
	if a.want(t, http.StatusCreated, "SUCCEEDED"); a.replayed {
		t.Errorf("%s is marked as replayed", a)
	}
	return a
}

// repeats demands the bytes of an earlier answer, marked as replayed.
func (a answer) repeats(t *testing.T, first answer) {
	t.Helper()
	if !a.replayed || a.Status != first.Status || a.Body != first.Body {
		t.Errorf("a repeat (replayed %t) got %s, want %s", a.replayed, a, first)
	}
}

// base is a direct connection to the service's database.
type base struct{ *sqlx.DB }

// open creates a migrated database and opens a connection to it.
func open(t *testing.T) (dsn string, b base) {
	t.Helper()
	dsn = dbtest.Postgres(t, postgres.Migrations())
	return dsn, base{dbtest.Dial(t, dsn)}
}

// counts demands how many payments, charges and records there are.
func (b base) counts(t *testing.T, payments, charges, records int) {
	t.Helper()
	got := apptest.One[struct{ Payments, Charges, Records int }](t, b, `
		SELECT (SELECT count(*) FROM payments.payments) AS payments,
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL) AS charges,
		(SELECT count(*) FROM payments.idempotency_records) AS records`)
	if got.Payments != payments || got.Charges != charges || got.Records != records {
		t.Errorf("%d payments, %d charges, %d records; want %d, %d, %d",
			got.Payments, got.Charges, got.Records, payments, charges, records)
	}
}
