package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A request that meets an uncommitted INSERT of its count leaves the group that it came in and is tried apart: the
// groups of the others do not wait for it, and it is sent a few times a second until its time is over.
func TestUncommittedCountDelaysOnlyItsOwnRequest(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]counting.ItemID{"one count": {"coming"}, "several counts": {"old", "coming"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lockTimeout, callers = 3 * time.Second, 8
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, seen := openSeen(t, dsn, sqldb.PoolerNone, lockTimeout)
			db := dbtest.Dial(t, dsn)
			mustCreate(t, s, "old", "free")
			holder := apptest.Hold(t, db, `INSERT INTO counts.count_values (item_id) VALUES ('coming')`)

			// The others send requests with keys: they share groups, and would share them with the request.
			var done atomic.Bool
			var sent atomic.Int64
			others := inBackground(callers, func(c int) error {
				for i := 0; !done.Load(); i++ {
					if _, err := s.Change(t.Context(), update(fmt.Sprintf("%d-%d", c, i), "free")); err != nil {
						return err
					}
					sent.Add(1)
				}
				return nil
			})
			waittest.Eventually(t, "the others have begun", func() bool { return sent.Load() > 10*callers })

			u := update("k", ids...)
			u.CreateMissing = true
			begin := time.Now()
			if _, err := s.Change(t.Context(), u); !errors.Is(err, groupcommit.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
			took := time.Since(begin)
			done.Store(true)
			wantDone(t, others)

			// Each try of the request ends in a lock timeout. Those in groups of the others are the first ones.
			const inGroups, inARow = 8, 8
			tries := seen.Conflicts(t, contention.LockTimeout)
			if most := inGroups + inARow + took.Seconds()/0.15; tries > most {
				t.Errorf("it was tried %g times in %v, want %g at most", tries, took, most)
			}

			holder.Rollback()
			got, err := s.Change(t.Context(), u)
			if err != nil || got.Replayed || !slices.Equal(got.Values, []int64{1, 1}[:len(ids)]) {
				t.Errorf("when the count is free: %+v, %v", got, err)
			}
		})
	}
}
