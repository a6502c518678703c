package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// failingBinary builds the service with its failpoints, which are not shipped.
var failingBinary = sync.OnceValues(func() (string, error) {
	// Beside what make puts there; git does not look at it.
	path, err := filepath.Abs("../../.tmp/failpoint/payments")
	if err != nil {
		return "", fmt.Errorf("find the folder for the binary: %w", err)
	}
	return path, local.Build(context.Background(), "../..", targets.Payments, path, os.Stderr,
		"-tags=grpcnotrace,failpoint")
})

func failing(t *testing.T) string {
	t.Helper()
	path, err := failingBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func openPayments(t *testing.T, replica *local.Replica) *payments.Client {
	t.Helper()
	c, err := payments.New(url(replica), options()...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPaymentKilledAtEveryStep kills a replica (SIGKILL) at each step of a
// payment, and asks another one again with the same key: one charge, one payment,
// and the key is held for no longer than the claim lives.
func TestPaymentKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	const timeout = "500ms" // of the processor; a claim lives a second longer
	db := dbtest.Dial(t, dsn)
	healthy := openPayments(t, start(t, targets.Payments, dsn, map[string]string{"PROCESSOR_TIMEOUT": timeout}))
	for before, step := range []struct {
		name                string
		paid, charged, open int // by the replica that was killed
	}{
		{"claimed", 0, 0, 1}, {"charging", 0, 0, 1}, // nothing is charged yet
		{"charged", 0, 1, 1}, {"settling", 0, 1, 1}, // charged, and the claim is left behind
		{"settled", 1, 1, 0}, // only the answer is lost
	} {
		killed := startCommand(t, targets.Payments, failing(t), "serve", dsn,
			map[string]string{"ROWLOCK_FAILPOINT": step.name, "PROCESSOR_TIMEOUT": timeout})
		key := "killed when " + step.name
		p, _, err := openPayments(t, killed).Create(t.Context(), key, targets.Ride("ride-1"))
		if !rowlock.OutcomeUnknown(err) {
			t.Fatalf("the replica was to die at %q and answered %+v, %v", step.name, p, err)
		}
		wantLedger(t, db, step.name, before+step.paid, before+step.charged, step.open)

		begin := time.Now()
		first, replayed, err := healthy.Create(t.Context(), key, targets.Ride("ride-1"))
		if err != nil || replayed != (step.paid == 1) {
			t.Fatalf("%s: the retry by another replica: %+v, replayed %v, %v", step.name, first, replayed, err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: the key was held for %s after its holder's death", step.name, took)
		}
		again, replayed, err := healthy.Create(t.Context(), key, targets.Ride("ride-1"))
		if err != nil || again != first || !replayed {
			t.Errorf("%s: the repeat: %+v, first %+v, %v", step.name, again, first, err)
		}
		wantLedger(t, db, step.name, before+1, before+1, 0)
		waittest.Eventually(t, "the killed replica is back", func() bool {
			status := killed.Status()
			return status.Ready && status.Starts > 1
		})
	}
}

// wantLedger demands of the database so many payments and charges, each payment with
// its charge, and so many keys left open.
func wantLedger(t *testing.T, db *sqlx.DB, step string, paid, charged, open int) {
	t.Helper()
	type ledger struct{ Payments, Charges, Settled, Open int }
	var got ledger
	err := db.GetContext(t.Context(), &got, `SELECT (SELECT count(*) FROM payments.payments) AS payments,
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL) AS charges,
		(SELECT count(*) FROM payments.processor_charges JOIN payments.payments USING (processor_key, amount)) AS settled,
		(SELECT count(*) FROM payments.idempotency_records WHERE status <> 'COMPLETED') AS open`)
	if want := (ledger{paid, charged, paid, open}); err != nil || got != want {
		t.Errorf("%s: the ledger has %+v, want %+v: %v", step, got, want, err)
	}
}

// TestShippedBinaryHasNoFailpoints looks for the name of the variable in both
// binaries: a failpoint is compiled in by its tag only.
func TestShippedBinaryHasNoFailpoints(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{localtest.Binary(t, targets.Payments): false, failing(t): true} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(raw, []byte("ROWLOCK_FAILPOINT")); got != want {
			t.Errorf("%s has failpoints: %v, want %v", path, got, want)
		}
	}
}
