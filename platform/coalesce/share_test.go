package coalesce_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
)

// places is how many places of the tests' share one key may have; all have twice as many.
const places = 4

// startShare starts a coalescer whose slow lane may hold so many requests.
func startShare(t *testing.T, keys ...string) (*table, *coalescer, *contention.Share) {
	t.Helper()
	tbl := newTable(keys...)
	cfg := tbl.config()
	cfg.Share = contention.NewShare(4*places, nil)
	return tbl, start(t, cfg), cfg.Share
}

// crowd sends n requests for a key at once and returns their results.
func crowd(t *testing.T, c *coalescer, n int, key string) []<-chan result {
	t.Helper()
	results := make([]<-chan result, n)
	for i := range results {
		results[i] = doAsync(t.Context(), c, add{id: i, key: key, n: 1})
	}
	synctest.Wait()
	return results
}

// wantCrowded takes the requests out of results that were refused for want of a place, which must be n of them, and
// returns the others. All were refused within a time.
func wantCrowded(t *testing.T, n int, within time.Duration, results []<-chan result) []<-chan result {
	t.Helper()
	var waiting []<-chan result
	refused := 0
	for _, r := range results {
		select {
		case got := <-r:
			refused++
			if !errors.Is(got.err, contention.ErrCrowded) || got.after > within {
				t.Errorf("got %d, %v after %v; want ErrCrowded within %v", got.value, got.err, got.after, within)
			}
		default:
			waiting = append(waiting, r)
		}
	}
	if refused != n {
		t.Errorf("%d requests were refused and %d wait, want %d refused", refused, len(waiting), n)
	}
	return waiting
}

func wantFree(t *testing.T, s *contention.Share) {
	t.Helper()
	synctest.Wait()
	if s.Free() != 2*places {
		t.Errorf("%d places are free, want %d", s.Free(), 2*places)
	}
}

// As many callers of a locked key as may wait; all others are refused as soon as the lock is known. Callers of other
// keys do not notice. Those that wait are applied when the row comes free, and none is refused any more.
func TestCallersOfALockedKeyHoldAShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "locked", "free")
		tbl.hold("locked")
		results := crowd(t, c, 50, "locked")
		time.Sleep(50 * time.Millisecond) // the first wait for the row
		synctest.Wait()
		waiting := wantCrowded(t, 50-places, 50*time.Millisecond, results)
		for range 20 { // they come again and again
			wantCrowded(t, 10, 0, crowd(t, c, 10, "locked"))
			if got := <-doAsync(t.Context(), c, add{key: "free", n: 1}); got.err != nil || got.after > comeBack {
				t.Errorf("another key: %v after %v", got.err, got.after)
			}
			time.Sleep(100 * time.Millisecond)
		}
		tbl.free("locked")
		wantAll(t, waiting...)
		wantFree(t, share)
		wantAll(t, crowd(t, c, 50, "locked")...)
		if tbl.value("locked") != places+50 {
			t.Errorf("value %d, want that of %d requests", tbl.value("locked"), places+50)
		}
	})
}

// A key that is merely busy is not locked: none of its callers is refused, although its row is away for
// milliseconds all the time.
func TestCallersOfABusyKeyAreNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "hot")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 20 {
				tbl.hold("hot")
				time.Sleep(40 * time.Millisecond)
				tbl.free("hot")
				time.Sleep(time.Millisecond)
			}
		}()
		for range 4 {
			wantAll(t, crowd(t, c, 250, "hot")...)
			time.Sleep(100 * time.Millisecond)
		}
		<-done
		wantFree(t, share)
	})
}

// However a call leaves the slow lane, its place is free again.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(tbl *table, cancel context.CancelFunc){
		"applied":   func(tbl *table, _ context.CancelFunc) { tbl.free("locked") },
		"timed out": func(*table, context.CancelFunc) { time.Sleep(7 * time.Second) },
		"caller left while its statement waits": func(_ *table, cancel context.CancelFunc) {
			time.Sleep(10 * time.Millisecond)
			cancel()
		},
		"caller left between two statements": func(tbl *table, cancel context.CancelFunc) {
			tbl.hold("locked too") // and its caller has the turn
			time.Sleep(time.Second)
			cancel()
		},
		"panic": func(tbl *table, _ context.CancelFunc) {
			tbl.panics.Store(true)
			time.Sleep(2 * time.Second)
		},
		"missing row": func(tbl *table, _ context.CancelFunc) {
			tbl.remove("locked")
			tbl.free("locked")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl, c, share := startShare(t, "locked", "locked too")
				tbl.hold("locked")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 2 * places {
					doAsync(ctx, c, add{id: i, key: "locked", n: 1})
				}
				doAsync(ctx, c, add{id: 99, key: "locked too", n: 1})
				time.Sleep(60 * time.Millisecond)
				if share.Free() != places {
					t.Fatalf("%d places are free: the test proves nothing", share.Free())
				}
				leave(tbl, cancel)
				wantFree(t, share)
				time.Sleep(time.Minute) // nothing gives a place back twice
				wantFree(t, share)
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A key whose callers have all given up stays known as locked: the next crowd does not go to the main lane, where it
// would delay others.
func TestLockedKeyIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "locked", "free")
		tbl.hold("locked")
		time.Sleep(50 * time.Millisecond)
		results := crowd(t, c, 50, "locked")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		wantLocked(t, wantCrowded(t, 50-places, 50*time.Millisecond, results)...)
		wantFree(t, share)

		waiting := wantCrowded(t, 50-places, 0, crowd(t, c, 50, "locked"))
		if got := <-doAsync(t.Context(), c, add{key: "free", n: 1}); got.err != nil || got.after != 0 {
			t.Errorf("another key: %v after %v", got.err, got.after)
		}
		wantLocked(t, waiting...)

		tbl.free("locked")
		if got := <-doAsync(t.Context(), c, add{key: "locked", n: 1}); got.err != nil || got.after != 0 {
			t.Errorf("the key that came free: %v after %v", got.err, got.after)
		}
		if c.Known() != 0 {
			t.Errorf("%d keys are known as locked", c.Known())
		}
	})
}

// A key that has come free is found by its next caller, even while another key has all places and its statement waits.
func TestFreedKeyIsFoundBesideALockedOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "locked", "locked too", "freed")
		tbl.hold("locked", "locked too", "freed")
		first := append(crowd(t, c, 50, "locked"), crowd(t, c, 50, "locked too")...)
		time.Sleep(110 * time.Millisecond) // two groups
		second := crowd(t, c, 50, "freed")
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		waiting := wantCrowded(t, 2*(50-places), 100*time.Millisecond, first)
		wantCrowded(t, 50, 50*time.Millisecond, second)
		time.Sleep(time.Second)
		wantCrowded(t, 10, 0, crowd(t, c, 10, "freed")) // one of them has asked

		tbl.free("freed")
		if got := <-doAsync(t.Context(), c, add{key: "freed", n: 1}); got.err != nil || got.after != 0 {
			t.Errorf("the key that came free: %v after %v", got.err, got.after)
		}
		wantAll(t, crowd(t, c, 50, "freed")...)
		tbl.free("locked", "locked too")
		wantAll(t, waiting...)
		wantFree(t, share)
	})
}

// Callers of a second locked key have places although those of the first come for more than theirs.
func TestOneLockedKeyLeavesPlacesToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "crowded", "other")
		tbl.hold("crowded", "other")
		first := crowd(t, c, 50, "crowded")
		time.Sleep(60 * time.Millisecond)
		second := crowd(t, c, places, "other")
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		waiting := wantCrowded(t, 50-places, 50*time.Millisecond, first)
		wantCrowded(t, 0, 0, second)
		tbl.free("crowded", "other")
		wantAll(t, append(waiting, second...)...)
		wantFree(t, share)
	})
}

// A crowd that comes at once for a row that has come free meanwhile is not refused: its callers wait for the answer of
// the one that asks, or of the next one where that has left.
func TestCrowdOfAFreedKeyIsNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "freed", "other")
		tbl.hold("freed", "other")
		wantLocked(t, append(crowd(t, c, 1, "freed"), crowd(t, c, 1, "other")...)...)
		tbl.free("freed")
		gate := tbl.gate()
		other := doAsync(t.Context(), c, add{key: "other", n: 1}) // its statement delays the next
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		left := doAsync(ctx, c, add{key: "freed", n: 1})
		synctest.Wait()
		results := crowd(t, c, 50, "freed")
		leave()
		if got := <-left; !errors.Is(got.err, coalesce.ErrLeft) {
			t.Errorf("the first caller left: %v", got.err)
		}
		close(gate)
		wantAll(t, results...)
		wantLocked(t, other)
		wantFree(t, share)
	})
}

// Those that come while a caller asks hold no place, and are refused when it has found the row locked.
func TestCrowdOfALockedKeyIsRefusedWhenItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c, share := startShare(t, "locked")
		tbl.hold("locked")
		wantLocked(t, crowd(t, c, 1, "locked")...)
		gate := tbl.gate()
		results := crowd(t, c, 50, "locked")
		if share.Free() != 2*places {
			t.Errorf("%d places are free before the lock is known, want %d", share.Free(), 2*places)
		}
		close(gate)
		synctest.Wait()
		wantLocked(t, wantCrowded(t, 50-places, 0, results)...)
		wantFree(t, share)
	})
}

// Locked keys without callers are forgotten in time, and their number is bounded until then.
func TestLockedKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable()
		cfg := tbl.config()
		cfg.Queue = 10
		cfg.Share = contention.NewShare(1, nil)
		c := start(t, cfg)
		for i := range 100 {
			key := strconv.Itoa(i)
			tbl.rows[key] = 0
			tbl.hold(key)
			doAsync(t.Context(), c, add{id: i, key: key, n: 1})
			time.Sleep(60 * time.Millisecond)
			synctest.Wait()
			if n := c.Known(); n > cfg.Queue {
				t.Fatalf("%d keys are known as locked, with a bound of %d", n, cfg.Queue)
			}
		}
		time.Sleep(10 * time.Second)
		before := c.Known()
		if before == 0 {
			t.Fatal("no key is known as locked: the test proves nothing")
		}
		tbl.free("99")
		if got := <-doAsync(t.Context(), c, add{key: "99", n: 1}); got.err != nil || c.Known() != before-1 {
			t.Errorf("%v, %d keys known as locked after %d", got.err, c.Known(), before)
		}
	})
}
