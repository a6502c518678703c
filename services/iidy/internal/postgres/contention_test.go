package postgres_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Every statement of a group that changes an item records one wait, and one conflict when it gives up on a lock.
func TestWaitsAreRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.Apply(t.Context(), attempt.Add, list, "held", ""); err != nil {
		t.Fatal(err)
	}
	before, _ := r.seen.Waits(t, contention.InDatabase)
	release := r.lock("held")
	done := async(func() (int64, error) { return r.Apply(t.Context(), attempt.Increment, list, "held", "") })
	waittest.Eventually(t, "three statements gave up", func() bool {
		return r.seen.Conflicts(t, contention.LockTimeout) >= 3
	})
	release()
	want(t, "increment", done, "1 <nil>")
	timeouts := r.seen.Conflicts(t, contention.LockTimeout)
	n, seconds := r.seen.Waits(t, contention.InDatabase)
	if before != 1 || n-before != timeouts+1 || seconds < 0.05+0.05+0.1 {
		t.Errorf("%g waits before, %g waits of %g s and %g conflicts", before, n-before, seconds, timeouts)
	}
}

// Claims whose lease ended are counted when another claim takes their items, and when their changes touch nothing.
func TestLostClaimsAreRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, items := t.Context(), attempt.ItemsOf("a", "b", "c")
	r.add("a", "b", "c")
	claim := func() attempt.Claim {
		lease, err := r.Claim(ctx, list, 10, time.Hour)
		if err != nil || lease.Entries.Len() != 3 {
			t.Fatalf("%+v, %v", lease, err)
		}
		return lease.Claim
	}
	stale := claim()
	execute(t, r.db, `UPDATE iidy.lists SET lease_until = clock_timestamp() - interval '1s'`)
	fresh := claim()
	if n := r.seen.Conflicts(t, contention.TakenOver); n != 3 {
		t.Errorf("%g items were taken over, want 3", n)
	}
	for i, c := range []struct {
		change func() (int64, error)
		want   string
		lost   float64
	}{
		{func() (int64, error) { return r.ApplyBatch(ctx, attempt.Increment, list, items, stale) }, "0 <nil>", 1},
		{func() (int64, error) { return r.Apply(ctx, attempt.Delete, list, "a", stale) }, "0 <nil>", 2},
		{func() (int64, error) { return r.Extend(ctx, list, stale, time.Hour) }, "0 <nil>", 3},
		{func() (int64, error) { return r.ApplyBatch(ctx, attempt.Increment, list, items, fresh) }, "3 <nil>", 3},
	} {
		want(t, "change", async(c.change), c.want)
		if n := r.seen.Conflicts(t, contention.Lost); n != c.lost {
			t.Errorf("change %d: %g were lost, want %g", i, n, c.lost)
		}
	}
}
