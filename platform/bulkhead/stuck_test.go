package bulkhead_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
)

// places is the size of the tests' share.
const places = 4

var errTimedOut = errors.New("the lock was not free in time")

func timedOut(err error) bool { return errors.Is(err, errTimedOut) }

// enterStuck returns a bulkhead in which a caller stays inside with the key "stuck".
func enterStuck(t *testing.T) (*bulkhead.Bulkhead[string], *contention.Share, bulkhead.Place[string]) {
	t.Helper()
	share := contention.NewShare(4*places, nil)
	b := bulkhead.New[string](3, nil, share)
	stuck, err := b.Enter(t.Context(), "stuck", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b, share, stuck
}

// crowd sends n callers of a key that stay inside for so long, and returns their errors.
func crowd(t *testing.T, b *bulkhead.Bulkhead[string], n int, key string, stay time.Duration) chan error {
	t.Helper()
	answers := make(chan error, n)
	for range n {
		go func() {
			answers <- do(t.Context(), b, key, time.Minute, func() error { time.Sleep(stay); return nil })
		}()
	}
	synctest.Wait()
	return answers
}

// wantRefused takes n errors, which must say that there was no place, and checks that there are no more.
func wantRefused(t *testing.T, n int, answers chan error) {
	t.Helper()
	synctest.Wait()
	if len(answers) != n {
		t.Errorf("%d callers were answered, want %d refused", len(answers), n)
	}
	for range len(answers) {
		if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
			t.Errorf("got %v, want ErrCrowded", err)
		}
	}
}

func wantFree(t *testing.T, share *contention.Share) {
	t.Helper()
	synctest.Wait()
	if share.Free() != 2*places {
		t.Errorf("%d places are free, want %d", share.Free(), 2*places)
	}
}

// Behind a caller that stays inside as many wait as there are places; the others are refused as soon as it counts as
// stuck. When it has left without an error no caller is refused any more.
func TestCallersBehindAStuckOneHoldAShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, share, stuck := enterStuck(t)
		waiting := crowd(t, b, 50, "stuck", time.Millisecond)
		wantRefused(t, 0, waiting)
		time.Sleep(100 * time.Millisecond)
		wantRefused(t, 50-places, waiting)
		for range 5 { // they come again and again
			wantRefused(t, 10, crowd(t, b, 10, "stuck", 0))
			if err := do(t.Context(), b, "other", time.Second, func() error { return nil }); err != nil {
				t.Errorf("another key: %v", err)
			}
			time.Sleep(time.Second)
		}
		stuck.Leave(true)
		after := crowd(t, b, 50, "stuck", time.Millisecond)
		for range places {
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		}
		for range cap(after) {
			if err := <-after; err != nil {
				t.Errorf("after it had left: %v", err)
			}
		}
		wantFree(t, share)
	})
}

// The next caller of a stuck key, which finds the lock as it was, does not let a new crowd in.
func TestStuckKeyIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, share, stuck := enterStuck(t)
		waiting := crowd(t, b, 50, "stuck", 10*time.Second)
		time.Sleep(100 * time.Millisecond)
		wantRefused(t, 50-places, waiting)
		stuck.Leave(false) // its own time was over
		synctest.Wait()
		wantRefused(t, 10, crowd(t, b, 10, "stuck", 0)) // the one that is inside now holds its place
		for range places {
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		wantFree(t, share)
		if b.Queues() != 0 {
			t.Errorf("%d keys without callers have a queue", b.Queues())
		}
	})
}

// A key whose callers stay inside for milliseconds is busy, not stuck: none is refused, however many there are.
func TestCallersOfABusyKeyAreNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[string](3, nil, contention.NewShare(4, nil))
		answers := crowd(t, b, 500, "busy", 90*time.Millisecond)
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Callers of as many locked keys as there are slots, and more, leave half of the slots to others. Above the share they
// are refused.
func TestLockedKeysLeaveSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		share := contention.NewShare(4*places, nil)
		b := bulkhead.New[string](4, nil, share)
		unlocked := make(chan struct{})
		answers := make(chan error, 20)
		var mu sync.Mutex
		inside, most := 0, 0
		for i := range cap(answers) {
			go func() {
				answers <- b.Do(t.Context(), strconv.Itoa(i), time.Minute, func(wait time.Duration) error {
					if wait > 50*time.Millisecond { // the second call
						mu.Lock()
						inside++
						most = max(most, inside)
						mu.Unlock()
						defer func() { mu.Lock(); inside--; mu.Unlock() }()
					}
					select {
					case <-unlocked:
						return nil
					case <-time.After(wait):
						return errTimedOut
					}
				}, timedOut)
			}()
		}
		time.Sleep(time.Second)
		wantRefused(t, cap(answers)-2*places, answers)
		begin := time.Now()
		for i := range 20 {
			err := do(t.Context(), b, "other "+strconv.Itoa(i), time.Second, func() error { return errOwn })
			if !errors.Is(err, errOwn) {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != 0 || share.Free() != 0 {
			t.Errorf("others waited %v beside %d free places", took, share.Free())
		}
		close(unlocked)
		for range 2 * places {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if most != 2 {
			t.Errorf("%d of 4 slots were held by callers that waited for a lock, want 2", most)
		}
		wantFree(t, share)
	})
}

// However a call that waits for a lock ends, place, slot and turn are free again.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(wait time.Duration, cancel context.CancelFunc) error{
		"applied":   func(time.Duration, context.CancelFunc) error { return nil },
		"timed out": func(wait time.Duration, _ context.CancelFunc) error { time.Sleep(wait); return errTimedOut },
		"left":      func(_ time.Duration, cancel context.CancelFunc) error { cancel(); return context.Canceled },
		"panic":     func(time.Duration, context.CancelFunc) error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				share := contention.NewShare(4*places, nil)
				b := bulkhead.New[string](1, nil, share)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 3 {
					go func() {
						defer func() { _ = recover() }()
						_ = b.Do(ctx, "key", time.Minute, func(wait time.Duration) error {
							time.Sleep(50 * time.Millisecond)
							if wait <= 50*time.Millisecond {
								return errTimedOut
							}
							return second(wait, cancel)
						}, timedOut)
					}()
				}
				time.Sleep(10 * time.Minute)
				wantFree(t, share)
				if err := do(t.Context(), b, "key", 0, func() error { return nil }); err != nil || b.Queues() != 0 {
					t.Errorf("afterwards: %v, %d queues", err, b.Queues())
				}
			})
		})
	}
}
