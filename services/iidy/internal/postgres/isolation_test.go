package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// others is the number of calls for free items while a row is locked.
const others = 30

// delaysNoOther starts four calls for an item that another transaction has locked, runs free while they wait, and
// releases the row. No call of free may go through a lane, the four must wait until the row is free, and
// counted of them must count.
func delaysNoOther(r *rig, change attempt.Change, release func(), counted int, free func()) {
	r.Helper()
	var waiting []<-chan string
	for range 4 {
		waiting = append(waiting, async(func() (int64, error) { return r.Apply(r.Context(), change, list, "held", "") }))
	}
	r.waitForBlocked(1)
	free()
	for _, w := range waiting {
		if len(w) != 0 {
			r.Error("a call for the locked row was answered before it was free")
		}
	}
	if n, _ := r.seen.Waits(r.T, contention.InLane); n != 0 {
		r.Errorf("%g other calls went through the lane of the locked row", n)
	}
	release()
	for _, w := range waiting {
		switch got := <-w; got {
		case "1 <nil>":
			counted--
		case "0 <nil>":
		default:
			r.Errorf("a call for the locked row: %s", got)
		}
	}
	if counted != 0 {
		r.Errorf("%d calls more should have been counted", counted)
	}
}

// A row locked by another transaction delays its own callers alone, and is not taken for a missing one.
func TestLockedRowDelaysNoOther(t *testing.T) {
	t.Parallel()
	for change, counted := range map[attempt.Change]int{attempt.Increment: 4, attempt.Delete: 1} {
		t.Run(change.String(), func(t *testing.T) {
			t.Parallel()
			r := rigOn(t, database(t), sqldb.PoolerNone, slow)
			r.add("held")
			delaysNoOther(r, change, r.lock("held"), counted, func() {
				for i := range others {
					item := attempt.Item(fmt.Sprintf("free-%d", i))
					r.add(item)
					if n, err := r.Apply(t.Context(), change, list, item, ""); n != 1 || err != nil {
						t.Fatalf("%s: %d %v", item, n, err)
					}
				}
			})
		})
	}
}

// An item that another transaction is adding is invisible; it too delays its own callers alone.
func TestUncommittedAddDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := rigOn(t, database(t), sqldb.PoolerNone, slow)
	release := r.insert("held")
	delaysNoOther(r, attempt.Add, release, 1, func() {
		waittest.Together(t, unrefused(t), func(i int) error {
			n, err := r.Apply(t.Context(), attempt.Add, list, attempt.Item(fmt.Sprintf("free-%03d", i)), "")
			if n != 1 || err != nil {
				return fmt.Errorf("another item: %d %w", n, err)
			}
			return nil
		})
	})
}

// A change that waits for longer than LockTimeout reports that it was not applied.
func TestRowLockedForTooLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("held")
	release := r.lock("held")
	_, single := r.Apply(t.Context(), attempt.Increment, list, "held", "")
	_, batch := r.ApplyBatch(t.Context(), attempt.Increment, list, attempt.ItemsOf("held"), "")
	if !errors.Is(single, groupcommit.ErrLocked) {
		t.Errorf("single: %v", single)
	}
	if !errors.Is(batch, groupcommit.ErrLocked) {
		t.Errorf("batch: %v", batch)
	}
	if l, err := r.Claim(t.Context(), list, 1, time.Minute); err != nil || l.Claim != "" {
		t.Errorf("a claim of a locked item: %+v, %v", l, err)
	}
	release()
	if n, err := r.Get(t.Context(), list, "held"); n != 0 || err != nil {
		t.Errorf("%d attempts, %v", n, err)
	}
}

// A long batch that was the victim of a deadlock is staged and run again: it counts once.
func TestDeadlockOfALongBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("a", "b")
	const lock = `SELECT FROM iidy.lists WHERE item = $1 FOR UPDATE`
	other := apptest.Hold(t, r.db, lock, "b")
	other.Execute(`SET LOCAL deadlock_timeout = '1min'`) // so that the batch is the victim
	changed := async(func() (int64, error) {
		return r.ApplyStaged(t.Context(), attempt.Increment, list, parts(attempt.ItemsOf("a"), attempt.ItemsOf("b")), "")
	})
	r.waitForBlocked(1)
	other.Execute(lock, "a") // returns when the batch has been rolled back
	other.Rollback()
	want(t, "increment", changed, "2 <nil>")
	if sum := apptest.One[int](t, r.db, `SELECT sum(attempts) FROM iidy.lists`); sum != 2 {
		t.Errorf("%d attempts, want 2", sum)
	}
	if again := apptest.Gathered(t, r.reg, `rowlock_retries_total{pool="main",sqlstate="40P01"}`); again != 1 {
		t.Errorf("%g transactions were run again, want 1", again)
	}
}

// A read whose caller leaves while its group is in flight changed nothing: its outcome is not unknown.
func TestReadThatItsCallerLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := apptest.Hold(t, r.db, `LOCK TABLE iidy.lists`)
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := r.Get(ctx, list, "a")
		answer <- err
	}()
	r.waitForBlocked(1)
	leave()
	if err := <-answer; !errors.Is(err, groupcommit.ErrLeft) || errors.Is(err, groupcommit.ErrUnknown) {
		t.Errorf("got %v, want ErrLeft", err)
	}
	other.Rollback()
}

// One long batch more than BulkInFlight waits, for no longer than its time, and not behind too many others. The batches
// run inside of each other.
func TestTooManyLongBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel() // so that what is refused does not wait
	running, waits := 0, make(chan (<-chan string), 1)
	var stage func(context.Context) (int64, error)
	stage = func(ctx context.Context) (int64, error) {
		return r.ApplyStaged(ctx, attempt.Add, list, func(yield func(*attempt.Items, error) bool) {
			running++
			item := attempt.ItemsOf(attempt.Item(strconv.Itoa(running)))
			if running < 3 {
				if n, err := stage(t.Context()); n != 1 || err != nil {
					t.Errorf("a batch inside of %d: %d %v", running, n, err)
				}
			} else {
				_, staged := r.ApplyStaged(ended, attempt.Add, list, parts(item), "")
				_, abandoned := r.Abandon(ended, list, 1, "")
				if !errors.Is(staged, attempt.ErrBusy) || !errors.Is(abandoned, attempt.ErrBusy) {
					t.Errorf("beside three: %v and %v", staged, abandoned)
				}
				waits <- async(func() (int64, error) {
					return r.ApplyStaged(t.Context(), attempt.Add, list, parts(attempt.ItemsOf("waits")), "")
				})
				waittest.Eventually(t, "a batch waits", func() bool { return !r.UploadMayWait() })
				if _, err := r.ApplyStaged(t.Context(), attempt.Add, list, parts(item), ""); !errors.Is(err, attempt.ErrBusy) {
					t.Errorf("behind as many as may wait: %v", err)
				}
			}
			yield(item, nil)
		}, "")
	}
	if n, err := stage(t.Context()); n != 1 || err != nil {
		t.Errorf("the first batch: %d %v", n, err)
	}
	want(t, "a batch that waited", <-waits, "1 <nil>")
	if refused := apptest.Gathered(t, r.reg, "iidy_bulk_refused_total"); refused != 3 {
		t.Errorf("the metric counts %g refused batches, want 3", refused)
	}
}

// A single item is read while reads such as pages have all the connections that they may, and more of them wait.
func TestSingleReadsDoNotQueueBehindPages(t *testing.T) {
	t.Parallel()
	r := rigOn(t, database(t), sqldb.PoolerNone, slow)
	r.add("item")
	const lock = `SELECT count(pg_advisory_xact_lock(1))`
	holder := apptest.Hold(t, r.db, lock)
	const pages = 12
	done := make(chan error, pages)
	for range pages {
		go func() {
			var n int
			done <- r.pool.GetContext(t.Context(), &n, lock)
		}()
	}
	apptest.WaitForBlocked(t, r.db, 4) // of the pool's eight connections
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := r.Get(within, list, "item"); err != nil || len(done) > 0 {
		t.Errorf("a single item: %v, after %d pages", err, len(done))
	}
	holder.Rollback()
	for range pages {
		if err := <-done; err != nil {
			t.Errorf("a page afterwards: %v", err)
		}
	}
}
