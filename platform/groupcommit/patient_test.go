package groupcommit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
)

// overhead is the time that a try takes beside its wait for the lock.
const overhead = 2 * time.Millisecond

// row is locked for a time.
type row struct{ free time.Time }

func lockedFor(d time.Duration) row { return row{time.Now().Add(d)} }

// try waits for the row as a server does.
func (r row) try(lockWait time.Duration) (struct{}, error) {
	left := max(time.Until(r.free), 0)
	time.Sleep(min(left, lockWait) + overhead)
	if left > lockWait {
		return struct{}{}, groupcommit.ErrSplit
	}
	return struct{}{}, nil
}

// crowd is a Patient at which callers of one row stand that stays locked.
type crowd struct {
	*groupcommit.Patient

	share *contention.Share
	errs  chan error
	done  sync.WaitGroup
}

const crowdTimeout = 5 * time.Second

// newCrowd lets so many callers come at once.
func newCrowd(ctx context.Context, callers int, longest time.Duration) *crowd {
	c := &crowd{share: contention.NewShare(1024, nil), errs: make(chan error, callers)}
	c.Patient = groupcommit.NewPatient(groupcommit.Limits{LockTimeout: crowdTimeout, Share: c.share}, 2, longest)
	locked := lockedFor(time.Hour)
	for range callers {
		c.done.Go(func() { c.errs <- c.retry(ctx, locked) })
	}
	return c
}

func (c *crowd) retry(ctx context.Context, r row) error {
	_, err := groupcommit.Retry(ctx, c.Patient, r, time.Now(), r.try)
	return err
}

// A change that has collided for 60 ms is made soon, whether the callers of a row that stays locked came with it or
// stand in line for long. One whose row is locked for longer than a collision waits for a round of theirs.
func TestACrowdDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	const callers = 160
	for name, tc := range map[string]struct {
		after, held, within time.Duration
	}{
		"with them":        {0, 60 * time.Millisecond, 2 * callers * 3 * time.Millisecond},
		"after them":       {2 * time.Second, 60 * time.Millisecond, 150 * time.Millisecond},
		"held for a while": {2 * time.Second, 400 * time.Millisecond, 2 * time.Second},
	} {
		for _, longest := range []time.Duration{25 * time.Millisecond, 500 * time.Millisecond} {
			t.Run(name+", "+longest.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t.Context(), callers, longest)
					defer c.done.Wait()
					time.Sleep(tc.after)
					begin := time.Now()
					if err := c.retry(t.Context(), lockedFor(tc.held)); err != nil {
						t.Errorf("another change: %v", err)
					}
					if took := time.Since(begin); took > tc.within {
						t.Errorf("another change took %s, want %s at most", took, tc.within)
					}
				})
			})
		}
	}
}

// Callers of a locked row are told so after the lock timeout. They hold places meanwhile, and those beyond a sixth
// are refused.
func TestACrowdIsBounded(t *testing.T) {
	t.Parallel()
	const places = 170
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t.Context(), 2*places, 25*time.Millisecond)
		begin := time.Now()
		c.done.Wait()
		if took := time.Since(begin); took < crowdTimeout || took > crowdTimeout+100*time.Millisecond {
			t.Errorf("the callers were told after %s, want %s", took, crowdTimeout)
		}
		told := make(map[error]int)
		for range 2 * places {
			told[<-c.errs]++
		}
		if n := told[groupcommit.ErrLocked]; n != places {
			t.Errorf("%d callers waited for the row, want %d", n, places)
		}
		if n := told[contention.ErrCrowded]; n != places {
			t.Errorf("%d callers were refused, want %d", n, places)
		}
		free := 0
		for c.share.Take(free) {
			free++
		}
		if free != 512 {
			t.Errorf("%d permits are free, want %d", free, 512)
		}
	})
}

// A caller that leaves between two tries is told that nothing was applied.
func TestACallerLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := newCrowd(ctx, 1, 25*time.Millisecond)
		if err := <-c.errs; !errors.Is(err, groupcommit.ErrLeft) {
			t.Errorf("got %v, want ErrLeft", err)
		}
	})
}

// First tries, of which each caller of a locked row makes one, are short while a row has stayed locked. A collision
// does not shorten them.
func TestFirstWaitIsShortWhileARowIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t.Context(), 1, 25*time.Millisecond)
		synctest.Wait()
		if wait := c.FirstWait(); wait != 50*time.Millisecond {
			t.Errorf("at first a first try waits for %s, want 50ms", wait)
		}
		time.Sleep(time.Second)
		if wait := c.FirstWait(); wait != 5*time.Millisecond {
			t.Errorf("a first try waits for %s, want 5ms", wait)
		}
		c.done.Wait()
		if wait := c.FirstWait(); wait != 50*time.Millisecond {
			t.Errorf("afterwards a first try waits for %s, want 50ms", wait)
		}
	})
}
