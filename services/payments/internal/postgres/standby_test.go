package postgres_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
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
	settles, other := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}),
		openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	claimed := settles.mustClaim(t)
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	want := paymenttest.NewPayment(claimed.Held)
	// unacknowledged cancels the wait of a call for the standby.
	unacknowledged := func(what string, call func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- call() }()
		waittest.Eventually(t, what+" waits for the standby", func() bool {
			var n int
			err := admin.GetContext(t.Context(), &n,
				`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			return err == nil && n == 1
		})
		if err := <-done; !errors.Is(err, payment.ErrOutcomeUnknown) {
			t.Fatalf("%s: %v, want ErrOutcomeUnknown", what, err)
		}
	}
	repeat := func(r replica) (payment.Claimed, error) {
		return r.Claim(t.Context(), paymenttest.NewClaim("k", time.Hour))
	}
	unacknowledged("the settlement", func() error {
		_, _, err := settles.Settle(t.Context(), claimed.Held, want)
		return err
	})
	claimed.Leave()
	for _, r := range []replica{settles, other} {
		unacknowledged("a repeat", func() error { _, err := repeat(r); return err })
	}
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := repeat(other)
	if err != nil || again.Record == nil || again.Record.PaymentID != want.ID {
		t.Errorf("with the standby: %+v, %v", again, err)
	}
}
