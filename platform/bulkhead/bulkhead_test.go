package bulkhead_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/problem"
)

var errOwn = errors.New("the function's own error")

// do calls f, which waits for no lock.
func do[K comparable](
	ctx context.Context, b *bulkhead.Bulkhead[K], key K, wait time.Duration, f func() error,
) error {
	return b.Do(ctx, key, wait, func(time.Duration) error { return f() }, func(error) bool { return false })
}

// Many callers of one slow key take one slot: others pass at once.
func TestCrowdOnOneKeyLeavesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[string](2, nil, nil)
		var crowd sync.WaitGroup
		var inside, most atomic.Int32
		for range 20 {
			crowd.Go(func() {
				err := do(t.Context(), b, "slow", time.Hour, func() error {
					most.Store(max(most.Load(), inside.Add(1)))
					time.Sleep(time.Second)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		for range 50 {
			if err := do(t.Context(), b, "other", time.Second, func() error { return errOwn }); !errors.Is(err, errOwn) {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("others waited %v", took)
		}
		crowd.Wait()
		if took := time.Since(begin); most.Load() != 1 || took != 20*time.Second {
			t.Errorf("%d were inside at once, for %v", most.Load(), took)
		}
	})
}

// Each caller's wait for its key is noted, that for a slot is not; who gives up is
// counted once.
func TestWaitsAreNoted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := apptest.NewContention(t, contention.Settings{Lock: "key", Queued: true})
		b := bulkhead.New[string](1, seen.Metrics, nil)
		var done sync.WaitGroup
		call := func(key string, wait time.Duration) {
			done.Go(func() {
				_ = do(t.Context(), b, key, wait, func() error { time.Sleep(time.Second); return nil })
			})
			synctest.Wait() // they come in this order
		}
		call("a", time.Hour)
		call("a", time.Hour)             // waits 1 s
		call("a", 1500*time.Millisecond) // gives up
		call("b", time.Hour)             // has its key at once, and waits for the slot
		done.Wait()
		n, seconds := seen.Waits(t, contention.InProcess)
		if timeouts := seen.Conflicts(t, contention.QueueTimeout); n != 4 || seconds != 2.5 || timeouts != 1 {
			t.Errorf("%g waits of %g s, %g timeouts", n, seconds, timeouts)
		}
	})
}

// Callers of one key enter in the order in which they came, however long they have waited.
func TestOrderOfArrivalIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[string](1, nil, contention.NewShare(4, nil))
		var done sync.WaitGroup
		var order []int // written by the caller that is inside
		for i := range 200 {
			done.Go(func() {
				err := do(t.Context(), b, "key", time.Hour, func() error {
					order = append(order, i)
					time.Sleep(20 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		done.Wait()
		if !slices.IsSorted(order) || len(order) != 200 {
			t.Errorf("entered in the order %v", order)
		}
	})
}

func TestSlotsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[int](3, nil, nil)
		var done sync.WaitGroup
		begin := time.Now()
		for key := range 9 {
			done.Go(func() {
				if err := do(t.Context(), b, key, time.Hour, func() error { time.Sleep(time.Second); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("nine keys in three slots took %v, want 3 s", took)
		}
	})
}

func TestTurnThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[string](0, nil, nil) // one slot
		leave := make(chan struct{})
		held := make(chan error, 1)
		go func() { held <- do(t.Context(), b, "a", time.Hour, func() error { <-leave; return nil }) }()
		synctest.Wait()
		called := func() error { t.Error("called"); return nil }
		for _, key := range []string{"a", "b"} { // behind the key, and behind the slot
			begin := time.Now()
			err := do(t.Context(), b, key, time.Second, called)
			if !errors.Is(err, bulkhead.ErrBusy) || time.Since(begin) != time.Second ||
				errors.Is(err, bulkhead.ErrFull) != (key == "b") { // the caller is told which was missing
				t.Errorf("%s: %v after %v", key, err, time.Since(begin))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			err = do(ctx, b, key, time.Second, called)
			if !errors.Is(err, bulkhead.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", key, err)
			}
			if err := do(ctx, b, key, time.Second, called); !errors.Is(err, bulkhead.ErrBusy) {
				t.Errorf("%s, ended before: %v", key, err)
			}
			cancel()
		}
		// One that gives up for want of a slot lets the next of its key try.
		next := make(chan error, 1)
		go func() { _ = do(t.Context(), b, "b", time.Second, called) }()
		synctest.Wait()
		go func() { next <- do(t.Context(), b, "b", time.Minute, func() error { return nil }) }()
		time.Sleep(2 * time.Second)
		close(leave)
		if err := errors.Join(<-held, <-next); err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := do(ended, b, "a", time.Second, called); !errors.Is(err, bulkhead.ErrBusy) {
			t.Errorf("ended before, and free: %v", err)
		}
		func() { // a panic leaves the place too
			defer func() { _ = recover() }()
			_ = do(t.Context(), b, "a", time.Second, func() error { panic("boom") })
		}()
		if err := do(t.Context(), b, "a", time.Second, func() error { return nil }); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if n := b.Queues(); n != 0 {
			t.Errorf("%d keys without callers have a queue", n)
		}
	})
}

func TestProblem(t *testing.T) {
	t.Parallel()
	p := bulkhead.Problem(errors.Join(bulkhead.ErrBusy, context.Canceled))
	if p == nil || p.Kind().Code() != problem.NotApplied.Code() {
		t.Errorf("busy is answered %v", p)
	}
	if p := bulkhead.Problem(errOwn); p != nil {
		t.Errorf("a foreign error is answered %v", p)
	}
}

// A caller that need not wait costs a queue and its channel, and no timer.
func TestNoTimerWithoutAWait(t *testing.T) { //nolint:paralleltest // AllocsPerRun must be alone
	b := bulkhead.New[int](1, nil, nil)
	nothing := func() error { return nil }
	allocations := testing.AllocsPerRun(100, func() {
		if err := do(t.Context(), b, 1, time.Minute, nothing); err != nil {
			t.Error(err)
		}
	})
	if allocations > 2 {
		t.Errorf("%g allocations, want the queue and its channel", allocations)
	}
}
