package postgres_test

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// TestLockedStatus: another transaction locks the row of status, for a moment and for longer than DB_LOCK_TIMEOUT.
// Reads do not wait. Every group records a wait for the row, and a conflict when it gives up.
func TestLockedStatus(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	seen := apptest.NewContention(t, contention.Settings{Lock: "id"})
	s := openSeen(t, dsn, sqldb.PoolerNone, prometheus.NewRegistry(), seen.Metrics)
	db := dbtest.Dial(t, dsn)
	const adds = 20
	answers := make(chan error, adds)
	for _, long := range []bool{false, true} {
		holder := apptest.Hold(t, db, `SELECT FROM events.status FOR UPDATE`)
		before := seen.Conflicts(t, contention.LockTimeout)
		for range adds {
			go func() {
				_, err := s.Add(t.Context(), event.New{Value: "x"})
				answers <- err
			}()
		}
		waittest.Eventually(t, "a group has given up", func() bool {
			return seen.Conflicts(t, contention.LockTimeout) > before
		})
		if _, err := s.Count(t.Context()); err != nil {
			t.Errorf("a read beside it: %v", err)
		}
		if !long {
			holder.Rollback()
		}
		for range adds {
			if err := <-answers; long != errors.Is(err, groupcommit.ErrLocked) || !long && err != nil {
				t.Errorf("locked for long: %t; got %v", long, err)
			}
		}
		waits, seconds := seen.Waits(t, contention.InDatabase)
		if n := seen.Conflicts(t, contention.LockTimeout); waits <= n || seconds < 0.05 {
			t.Errorf("%g waits of %g s, %g conflicts", waits, seconds, n)
		}
		if long {
			holder.Rollback()
		}
	}
	if n, err := s.Count(t.Context()); err != nil || n != adds {
		t.Errorf("count %d, %v; want the %d that were acknowledged", n, err, adds)
	}
}
