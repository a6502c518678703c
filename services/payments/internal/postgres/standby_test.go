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

// TestReplaysWaitForTheStandby: a payment is stored, and its synchronous standby lacks it, as after a settlement whose
// wait was cancelled. A failover may lose it, so a repeat waits for the standby too, and is not acknowledged without.
func TestReplaysWaitForTheStandby(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Server(t, map[string]string{"synchronous_standby_names": "absent"}).URL("postgres")
	unwaited := dsn + "&synchronous_commit=local"
	if err := migrate.Up(t.Context(), unwaited, postgres.Migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	alone := openStore(t, unwaited, sqldb.PoolerNone, postgres.Options{})
	if _, _, err := paymenttest.Pay(t.Context(), alone, "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	admin, waiting := dbtest.Dial(t, unwaited), openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	done := make(chan error, 1)
	go func() {
		_, _, err := paymenttest.Pay(t.Context(), waiting, "k", time.Hour)
		done <- err
	}()
	waittest.Eventually(t, "the replay waits for the standby", func() bool {
		var n int
		err := admin.GetContext(t.Context(), &n,
			`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		return err == nil && n == 1
	})
	if err := <-done; !errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("%v, want ErrOutcomeUnknown", err)
	}
}
