package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// Every statement of a group notes one wait, and one conflict if it gave up.
func TestWaitsForAnItemAreNoted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openSeen(t, dsn, sqldb.PoolerNone)
	if _, err := s.One(t.Context(), attempt.Add, "l", "held", ""); err != nil {
		t.Fatal(err)
	}
	before, _ := seen.Waits(t, contention.InDatabase)
	release := hold(t, apptest.Open(t, dsn), `SELECT FROM iidy.lists WHERE item = 'held' FOR UPDATE`)
	done := make(chan error, 1)
	go func() { _, err := s.One(t.Context(), attempt.Increment, "l", "held", ""); done <- err }()
	apptest.WaitUntil(t, "it has given up three times", func() bool { return seen.Conflicts(t, contention.LockTimeout) >= 3 })
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	timeouts := seen.Conflicts(t, contention.LockTimeout)
	n, seconds := seen.Waits(t, contention.InDatabase)
	if before != 1 || n-before != timeouts+1 || seconds < 0.05+0.05+0.1 {
		t.Errorf("%g waits before, %g waits of %g s and %g conflicts", before, n-before, seconds, timeouts)
	}
}

// Claims that run out are counted where they are taken over, and where they are
// refused.
func TestClaimsThatRunOutAreCounted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openSeen(t, dsn, sqldb.PoolerNone)
	items := attempt.ItemsOf("a", "b", "c")
	if _, err := s.Many(t.Context(), attempt.Add, "l", items, ""); err != nil {
		t.Fatal(err)
	}
	claim := func() attempt.Claim {
		lease, err := s.Claim(t.Context(), "l", 10, time.Hour)
		if err != nil || len(lease.Entries) != 3 {
			t.Fatalf("%+v, %v", lease, err)
		}
		return lease.Claim
	}
	stale := claim()
	apptest.Execute(t, apptest.Open(t, dsn), `UPDATE iidy.lists SET lease_until = clock_timestamp() - interval '1s'`)
	fresh := claim()
	if n := seen.Conflicts(t, contention.TakenOver); n != 3 {
		t.Errorf("%g items were taken over, want 3", n)
	}
	for step, change := range []func(context.Context) (int64, error){
		func(ctx context.Context) (int64, error) { return s.Many(ctx, attempt.Increment, "l", items, stale) },
		func(ctx context.Context) (int64, error) { return s.One(ctx, attempt.Delete, "l", "a", stale) },
		func(ctx context.Context) (int64, error) { return s.Extend(ctx, "l", stale, time.Hour) },
	} {
		if n, err := change(t.Context()); n != 0 || err != nil || seen.Conflicts(t, contention.Lost) != float64(step+1) {
			t.Errorf("step %d touched %d, %v; %g were lost", step, n, err, seen.Conflicts(t, contention.Lost))
		}
	}
	if n, err := s.Many(t.Context(), attempt.Increment, "l", items, fresh); n != 3 || err != nil || seen.Conflicts(t, contention.Lost) != 3 {
		t.Errorf("the holder touched %d, %v; %g were lost", n, err, seen.Conflicts(t, contention.Lost))
	}
}
