package postgres_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Every statement that waits for counts notes one wait, and one conflict if it gave
// up: alone, in a group, and in a lane of its own behind a stranger.
func TestWaitsForACountAreNoted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openSeen(t, dsn, sqldb.PoolerNone)
	mustCreate(t, s, "held", "free")
	before, _ := seen.Waits(t, contention.InDatabase)
	if queued, _ := seen.Waits(t, contention.InProcess); before != 2 || queued != 2 {
		t.Errorf("two new counts waited %g times, and %g in the queue", before, queued)
	}
	release := hold(t, observer(t, dsn), "held")
	done := make(chan error, 1)
	go func() { _, err := s.Add(t.Context(), "held", 1); done <- err }()
	apptest.WaitUntil(t, "it has given up three times", func() bool { return seen.Conflicts(t, contention.LockTimeout) >= 3 })
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	timeouts := seen.Conflicts(t, contention.LockTimeout)
	n, seconds := seen.Waits(t, contention.InDatabase)
	// The brief wait, again in the lane, and then twice that; at the end it was held.
	if n-before != timeouts+1 || seconds < 0.05+0.05+0.1 {
		t.Errorf("%g waits of %g s and %g conflicts", n-before, seconds, timeouts)
	}

	// Nobody is in the way of a group: one more wait, no conflict.
	apptest.Together(2, func(i int) {
		if _, err := s.Add(t.Context(), []counting.ItemID{"held", "free"}[i], 1); err != nil {
			t.Error(err)
		}
	})
	again, _ := seen.Waits(t, contention.InDatabase)
	if again-n < 1 || again-n > 2 || seen.Conflicts(t, contention.LockTimeout) != timeouts {
		t.Errorf("%g waits, %g conflicts", again-n, seen.Conflicts(t, contention.LockTimeout)-timeouts)
	}
}
