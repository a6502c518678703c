package postgres_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Each statement that waits for counts records one wait, as long as it was, and one conflict if it gave up; the
// request behind them was in a lane.
func TestWaitsForACountAreRecorded(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openSeen(t, dsn, sqldb.PoolerNone, 2*time.Second)
	mustCreate(t, s, "held", "free")
	before, made := seen.Waits(t, contention.InDatabase)
	if before != 2 {
		t.Errorf("two new counts waited %g times", before)
	}
	db := dbtest.Dial(t, dsn)
	holder := lock(t, db, "held")
	done := make(chan error, 1)
	go func() {
		_, err := countingtest.Add(t.Context(), s, "held", 1)
		done <- err
	}()
	waittest.Eventually(t, "it has given up three times",
		func() bool { return seen.Conflicts(t, contention.LockTimeout) >= 3 })
	_, soFar := seen.Waits(t, contention.InDatabase)
	apptest.WaitForBlocked(t, db, 1)
	holder.Rollback()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	timeouts := seen.Conflicts(t, contention.LockTimeout)
	n, seconds := seen.Waits(t, contention.InDatabase)
	if n-before != timeouts+1 || soFar < 0.05+0.05+0.1 || seconds <= soFar {
		t.Errorf("%g waits of %g s, %g s of them given up, and %g conflicts", n-before, seconds, soFar, timeouts)
	}
	if lanes, all := seen.Waits(t, contention.InLane); lanes != 1 || all < seconds-made {
		t.Errorf("%g requests in a lane for %g s, of %g s", lanes, all, seconds-made)
	}

	// Without another transaction in the way: one more wait of a group, or two, and no conflict.
	waittest.Together(t, 2, func(i int) error {
		_, err := countingtest.Add(t.Context(), s, []counting.ItemID{"held", "free"}[i], 1)
		return err
	})
	again, _ := seen.Waits(t, contention.InDatabase)
	if again-n < 1 || again-n > 2 || seen.Conflicts(t, contention.LockTimeout) != timeouts {
		t.Errorf("%g waits, %g conflicts", again-n, seen.Conflicts(t, contention.LockTimeout)-timeouts)
	}
}
