package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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
			var mu sync.Mutex
			var beside []time.Duration
			done := make(chan struct{})
			var others sync.WaitGroup
			for c := range callers {
				others.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-done:
							return
						default:
						}
						begin := time.Now()
						if _, err := s.Apply(t.Context(), update(fmt.Sprintf("%d-%d", c, i), "free")); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						beside = append(beside, time.Since(begin))
						mu.Unlock()
					}
				})
			}
			waittest.Eventually(t, "the others have begun", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(beside) > 10*callers
			})
			mu.Lock()
			before := slices.Clone(beside)
			beside = nil
			mu.Unlock()

			u := update("k", ids...)
			u.Create = true
			begin := time.Now()
			if _, err := s.Apply(t.Context(), u); !errors.Is(err, groupcommit.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
			took := time.Since(begin)
			close(done)
			others.Wait()

			// Each try of the request ends in a lock timeout. Those in groups of the others are the first ones.
			const inGroups, inARow = 8, 8
			tries := seen.Conflicts(t, contention.LockTimeout)
			if most := inGroups + inARow + took.Seconds()/0.15; tries > most {
				t.Errorf("it was tried %g times in %v, want %g at most", tries, took, most)
			}
			slices.Sort(before)
			slices.Sort(beside)
			t.Logf("tried %g times in %v; the median of %d callers: %v without it, %v beside it (%d requests, the longest %v)",
				tries, took.Round(time.Millisecond), callers, before[len(before)/2], beside[len(beside)/2], len(beside),
				beside[len(beside)-1])

			holder.Rollback()
			got, err := s.Apply(t.Context(), u)
			if err != nil || got.Replayed || !slices.Equal(got.Values, []int64{1, 1}[:len(ids)]) {
				t.Errorf("when the count is free: %+v, %v", got, err)
			}
		})
	}
}
