package mysql_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

// TestLockedStatus: another transaction locks the row of status, for a moment and for longer than DB_LOCK_TIMEOUT.
// Reads do not wait. Every group records a wait for the row, and a conflict when it gives up.
func TestLockedStatus(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDB(t, mysql.Migrations())
	seen := apptest.NewContention(t, contention.Settings{Lock: "id"})
	s, db := openStore(t, dsn, seen.Metrics), openPool(t, dsn, nil)
	const adds = 20
	answers := make(chan error, adds)
	wantAnswers := func(want error) {
		for range adds {
			if err := <-answers; !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
	}
	for _, long := range []bool{false, true} {
		before := seen.Conflicts(t, contention.LockTimeout)
		if err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			var id int64
			if err := tx.GetContext(ctx, &id, `SELECT id FROM status FOR UPDATE`); err != nil {
				return err
			}
			for range adds {
				go func() {
					_, err := s.Add(t.Context(), event.New{Value: "x"})
					answers <- err
				}()
			}
			waittest.Eventually(t, "a group has given up", func() bool {
				return seen.Conflicts(t, contention.LockTimeout) > before
			})
			if long {
				wantAnswers(groupcommit.ErrLocked)
			}
			_, err := s.Count(ctx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !long {
			wantAnswers(nil)
		}
	}
	waits, seconds := seen.Waits(t, contention.InDatabase)
	if n := seen.Conflicts(t, contention.LockTimeout); waits <= n || seconds < 0.9 {
		t.Errorf("%g waits of %g s, %g conflicts", waits, seconds, n)
	}
	if n, err := s.Count(t.Context()); err != nil || n != adds {
		t.Errorf("count %d, %v; want the %d that were acknowledged", n, err, adds)
	}
}
