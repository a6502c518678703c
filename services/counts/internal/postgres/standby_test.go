package postgres_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// The synchronous standby is away, and the wait of a request that finds no count is cancelled. A failover may lose the
// key with its 404, so the 404 is not repeated until the standby has it: the repeat's own commit waits for that.
func TestRepeatsWaitForTheStandby(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	url := primary.URL("postgres")
	standby := dbtest.Standby(t, primary)
	if err := migrate.Up(t.Context(), url, postgres.Migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	admin := dbtest.Dial(t, url+"&synchronous_commit=local")
	first, _ := openSeen(t, url, sqldb.PoolerNone, 500*time.Millisecond)
	other, _ := openSeen(t, url, sqldb.PoolerNone, 500*time.Millisecond)
	for _, replica := range []*replica{first, other} { // each has a slot then
		if _, err := replica.Change(t.Context(), update("earlier", "missing")); !errors.Is(err, counting.ErrNotFound) {
			t.Fatal(err)
		}
	}
	dbtest.WaitForStandby(t, primary)
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}

	for _, replica := range []*replica{first, first, other} {
		done := make(chan error, 1)
		go func() {
			_, err := replica.Change(t.Context(), update("k", "missing"))
			done <- err
		}()
		canceled := 0
		waittest.Eventually(t, "the request ends", func() bool {
			canceled += apptest.One[int](t, admin,
				`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			return len(done) > 0
		})
		err := <-done
		if _, ours := sqldb.OutcomeOf(err); canceled == 0 || !ours {
			t.Errorf("after %d waits that were cancelled: %v", canceled, err)
		}
	}
	if n := apptest.One[int](t, admin, `SELECT count(*) FROM counts.idempotency_keys WHERE key = 'k'`); n != 1 {
		t.Errorf("%d keys are stored, want that of the first request", n)
	}

	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := other.Change(t.Context(), update("k", "missing"))
	if !errors.Is(err, counting.ErrNotFound) || !got.Replayed {
		t.Errorf("with the standby: %+v, %v", got, err)
	}
}
