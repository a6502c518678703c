package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
)

// failingBinary builds the service with its failpoints, which nobody ships.
//
//nolint:gochecknoglobals // it is a function, and what it keeps is the same for all tests
var failingBinary = sync.OnceValues(func() (string, error) {
	// Beside what make puts there; git does not look at it.
	path, err := filepath.Abs("../../.tmp/failpoint/payments")
	if err != nil {
		return "", fmt.Errorf("find the folder for the binary: %w", err)
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags=failpoint", "-o", path, "./cmd/payments")
	build.Dir = "../../services/payments"
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // as make build, whose packages are in Go's cache
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build payments with its failpoints: %w: %s", err, out)
	}
	return path, nil
})

func failing(t *testing.T) string {
	t.Helper()
	path, err := failingBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// payments runs n replicas of payments on the database; variables go over the defaults.
func payments(t *testing.T, n int, path, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	secret := map[string]string{"FINGERPRINT_SECRET": "of the acceptance tests"}
	return localtest.Start(t, n, local.Spec{Service: "payments", Path: path}, dsn, secret, variables)
}

// payment is what came of a request to pay.
type payment struct {
	status   int // 0 when there was no answer
	code     string
	body     string
	replayed bool
	err      error
}

// definitive tells whether the answer is the one that every repeat gets.
func (p payment) definitive() bool { return p.status == http.StatusCreated }

// pay sends a payment of amount.
func (c *client) pay(ctx context.Context, addr, key string, amount int) payment {
	body := fmt.Sprintf(`{"ride_id":"%s","rider_id":"rider","amount":%d,"currency":"EUR",`+
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`, key, amount)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/payments", strings.NewReader(body))
	if err != nil {
		return payment{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.http.Do(req)
	if err != nil {
		return payment{err: err}
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return payment{err: err}
	}
	p := payment{status: resp.StatusCode, body: string(raw), replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	var doc struct{ Code string }
	if err := json.Unmarshal(raw, &doc); err != nil {
		return payment{err: fmt.Errorf("status %d with %q: %w", resp.StatusCode, raw, err)}
	}
	p.code = doc.Code
	return p
}

// wantBooks demands of the database so many payments and charges, and that each
// charge stands behind one payment.
func wantBooks(t *testing.T, dsn string, payments, charges int) {
	t.Helper()
	var gotPayments, gotCharges, processing, without int
	err := dial(t, dsn).QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM payments.payments),
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL),
		(SELECT count(*) FROM payments.idempotency_records WHERE status <> 'COMPLETED'),
		(SELECT count(*) FROM payments.processor_charges c
		  WHERE NOT EXISTS (SELECT FROM payments.payments p WHERE p.processor_key = c.processor_key AND p.amount = c.amount))`).
		Scan(&gotPayments, &gotCharges, &processing, &without)
	if err != nil {
		t.Fatal(err)
	}
	if gotPayments != payments || gotCharges != charges || processing != 0 {
		t.Errorf("%d payments, %d charges, %d stuck keys; want %d, %d and none", gotPayments, gotCharges, processing, payments, charges)
	}
	if payments == charges && without != 0 {
		t.Errorf("%d charges have no payment", without)
	}
}

// terminate ends a replica in order and waits until it is back.
func terminate(t *testing.T, r *local.Replica) {
	t.Helper()
	if err := syscall.Kill(r.Status().PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, r.Name()+" is back", 30*time.Second, func() bool {
		st := r.Status()
		return st.Ready && st.Starts == 2
	})
}
