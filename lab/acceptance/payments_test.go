package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// failingBinary builds the service with its failpoints, which are not shipped.
//
//nolint:gochecknoglobals // it is a function, and what it keeps is the same for all tests
var failingBinary = sync.OnceValues(func() (string, error) {
	// Beside what make puts there; git does not look at it.
	path, err := filepath.Abs("../../.tmp/failpoint/payments")
	if err != nil {
		return "", fmt.Errorf("find the folder for the binary: %w", err)
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags=failpoint", "-o", path,
		"./cmd/payments")
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

func openPayments(t *testing.T, set *local.Set) *payments.Client {
	t.Helper()
	c, err := payments.New(urls(set)[0], options())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPaymentKilledAtEveryStep kills a replica (SIGKILL) at each step of a
// payment, and asks another one again with the same key: one charge, one payment,
// and the key is never stuck.
func TestPaymentKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, charged := range map[string]int{
		"claimed": 0, "charging": 0, // nothing is charged yet
		"charged": 1, "stored": 1, // charged, and the payment's transaction is gone with the replica
		"committed": 1, // only the answer is lost
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			healthy := openPayments(t, start(t, services.Payments, 1, dsn, nil))
			killed := startBinary(t, services.Payments, failing(t), "serve", 1, dsn,
				map[string]string{"ROWLOCK_FAILPOINT": step})
			const key = "ride-1"
			if p, _, err := openPayments(t, killed).Create(t.Context(), key, services.Ride(key)); !rowlock.OutcomeUnknown(err) {
				t.Fatalf("the replica was to die at %q and answered %+v, %v", step, p, err)
			}
			paid := 0
			if step == "committed" {
				paid = 1
			}
			wantLedger(t, dsn, paid, charged)

			begin := time.Now()
			first, replayed, err := healthy.Create(t.Context(), key, services.Ride(key))
			if err != nil || replayed != (paid == 1) {
				t.Fatalf("the retry by another replica: %+v, replayed %v, %v", first, replayed, err)
			}
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("the key was held for %s after its holder's death", took)
			}
			again, replayed, err := healthy.Create(t.Context(), key, services.Ride(key))
			if err != nil || again != first || !replayed {
				t.Errorf("the repeat: %+v, first %+v, %v", again, first, err)
			}
			wantLedger(t, dsn, 1, 1)
			within(t, 30*time.Second, "the killed replica is back", func() bool {
				status := killed.Replicas()[0].Status()
				return status.Ready && status.Starts > 1
			})
		})
	}
}

// wantLedger demands of the database so many payments and charges, that no key is
// left open, and that a charge has its payment when there are as many of both.
func wantLedger(t *testing.T, dsn string, wantPayments, wantCharges int) {
	t.Helper()
	var gotPayments, gotCharges, open, without int
	scan(t, dsn, `SELECT (SELECT count(*) FROM payments.payments),
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL),
		(SELECT count(*) FROM payments.idempotency_records WHERE status <> 'COMPLETED'),
		(SELECT count(*) FROM payments.processor_charges c
		  WHERE NOT EXISTS (SELECT FROM payments.payments p
			 WHERE p.processor_key = c.processor_key AND p.amount = c.amount))`,
		&gotPayments, &gotCharges, &open, &without)
	if gotPayments != wantPayments || gotCharges != wantCharges || open != 0 {
		t.Errorf("%d payments, %d charges, %d open keys; want %d, %d and none",
			gotPayments, gotCharges, open, wantPayments, wantCharges)
	}
	if wantPayments == wantCharges && without != 0 {
		t.Errorf("%d charges have no payment", without)
	}
}

// TestShippedBinaryHasNoFailpoints looks for the name of the variable in both
// binaries: a failpoint is compiled in by its tag only.
func TestShippedBinaryHasNoFailpoints(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{localtest.Binary(t, services.Payments): false, failing(t): true} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(raw, []byte("ROWLOCK_FAILPOINT")); got != want {
			t.Errorf("%s has failpoints: %v, want %v", path, got, want)
		}
	}
}
