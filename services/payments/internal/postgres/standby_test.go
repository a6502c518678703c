package postgres_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// TestReplaysWaitForTheStandby: the synchronous standby is away, and the wait of a settlement is cancelled. A failover
// may lose the payment, so each repeat waits for the standby too, is not acknowledged without, and is with it.
func TestReplaysWaitForTheStandby(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	dsn := primary.URL("postgres")
	standby := dbtest.Standby(t, primary)
	log := slog.New(slog.DiscardHandler)
	if err := migrate.Up(t.Context(), dsn, postgres.Migrations(), time.Minute, log); err != nil {
		t.Fatal(err)
	}
	dbtest.WaitForStandby(t, primary)
	admin := dbtest.Dial(t, dsn+"&synchronous_commit=local")
	o := postgres.Options{}
	o.LockTimeout, o.StatementTimeout = 500*time.Millisecond, time.Second
	settles, other := openStore(t, dsn, sqldb.PoolerNone, o), openStore(t, dsn, sqldb.PoolerNone, o)
	claimed := settles.mustClaim(t)
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	want := paymenttest.NewPayment(claimed.Held)
	// unacknowledged cancels each wait of a call for the standby, until it gives up.
	unacknowledged := func(what string, call func() error) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- call() }()
		canceled := 0
		waittest.Eventually(t, what+" ends", func() bool {
			var n int
			err := admin.GetContext(t.Context(), &n,
				`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			canceled += n
			if err != nil {
				t.Error(err)
			}
			return len(done) > 0
		})
		if canceled == 0 {
			t.Errorf("%s did not wait for the standby", what)
		}
		return <-done
	}
	repeat := func(r replica) (payment.Claimed, error) {
		return r.Claim(t.Context(), paymenttest.NewClaim("k", time.Hour))
	}
	err := unacknowledged("the settlement", func() error {
		_, _, err := settles.Settle(t.Context(), claimed.Held, want)
		return err
	})
	if !errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("the settlement: %v, want ErrOutcomeUnknown", err)
	}
	claimed.Leave()
	for _, r := range []replica{settles, other} {
		err := unacknowledged("a repeat", func() error { _, err := repeat(r); return err })
		if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied {
			t.Errorf("a repeat: %v, want an error that says that nothing was applied", err)
		}
	}
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := repeat(other)
	if err != nil || again.Record == nil || again.Record.PaymentID != want.ID {
		t.Errorf("with the standby: %+v, %v", again, err)
	}
}
