package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

func TestHeldRowDelaysOnlyItsOwnCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"held"}
		for i := range 10 {
			keys = append(keys, fmt.Sprintf("k%d", i))
		}
		tbl, c := startTable(t, keys...)
		tbl.before = func([]add) { time.Sleep(time.Millisecond) } // a statement takes a while
		tbl.hold("held")
		time.AfterFunc(2*time.Second, func() { tbl.free("held") })

		var others, heldOnes []<-chan result
		for i := range 400 { // spread over the two seconds
			others = append(others, doAsync(t.Context(), c, add{id: i, key: keys[1+i%10], n: 1}))
			if i%40 == 0 {
				heldOnes = append(heldOnes, doAsync(t.Context(), c, add{id: 1000 + i, key: "held", n: 1}))
			}
			time.Sleep(5 * time.Millisecond)
		}
		for i, r := range others {
			// The first group may have met the row: its brief wait, then the free rows.
			if got := <-r; got.err != nil || got.after > 60*time.Millisecond {
				t.Errorf("other %d: %v after %v", i, got.err, got.after)
			}
		}
		wantAll(t, heldOnes...)
		if tbl.value("held") != len(heldOnes) {
			t.Errorf("held row has %d, want %d", tbl.value("held"), len(heldOnes))
		}
	})
}

func TestRowHeldForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "held", "also held")
		tbl.hold("held", "also held")
		a := doAsync(t.Context(), c, add{id: 1, key: "held", n: 1})
		b := doAsync(t.Context(), c, add{id: 2, key: "also held", n: 1})
		for _, r := range []<-chan result{a, b} {
			got := <-r
			if !errors.Is(got.err, coalesce.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", got.err)
			}
			if got.after < 5*time.Second || got.after > 7*time.Second {
				t.Errorf("gave up after %v, want the lock timeout of 5 s and at most two waits of 1 s", got.after)
			}
		}
		tbl.free("held")
		if v, err := c.Do(t.Context(), add{id: 3, key: "held", n: 1}); v != 1 || err != nil {
			t.Errorf("after the row was freed: %d, %v", v, err)
		}
		if tbl.timesApplied(1)+tbl.timesApplied(2) != 0 {
			t.Error("what was refused was applied later")
		}
		tbl.free("also held")
	})
}

// A caller whose context ends while its statement waits for the lock gets ErrUnknown;
// nothing was applied then, and nothing is applied later.
func TestContextEndsWhileTheRowIsLocked(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{
		"in the brief wait": 20 * time.Millisecond,
		"in the slow lane":  300 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl, c := startTable(t, "held")
				tbl.hold("held")
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				left := doAsync(ctx, c, add{id: 1, key: "held", n: 1})
				synctest.Wait() // the abandoned request is first
				stays := doAsync(t.Context(), c, add{id: 2, key: "held", n: 10})
				if got := <-left; !errors.Is(got.err, coalesce.ErrUnknown) {
					t.Errorf("got %v, want ErrUnknown", got.err)
				}
				time.Sleep(time.Second) // of the bubble's clock: its statement has given up by now
				tbl.free("held")
				if got := <-stays; got.err != nil || got.value != 10 {
					t.Errorf("the other request got %d, %v; want 10: the first was not applied", got.value, got.err)
				}
			})
		})
	}
}

// The waits grow, so that a row held for long costs few statements.
func TestWaitsForAHeldRowGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "held")
		statements := 0
		tbl.before = func([]add) { statements++ }
		tbl.hold("held")
		wantLocked(t, doAsync(t.Context(), c, add{id: 1, key: "held", n: 1}))
		// 50 ms and the skip, then 50, 100, 200, 400, 800 ms, 1 s, 1 s, 1 s and the rest.
		if statements < 8 || statements > 12 {
			t.Errorf("%d statements in 5 s, want about 10", statements)
		}
		tbl.free("held")
	})
}

// Of many locked rows one is freed: its caller does not wait for the others.
func TestFreedRowAmongManyIsSeenWithinOneWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable()
		for i := range 10 {
			tbl.rows[strconv.Itoa(i)] = 0
			tbl.hold(strconv.Itoa(i))
		}
		c := start(t, tbl.config())
		var results []<-chan result
		for i := range 10 {
			results = append(results, doAsync(t.Context(), c, add{id: i, key: strconv.Itoa(i), n: 1}))
		}
		time.AfterFunc(3300*time.Millisecond, func() { tbl.free("7") })
		if got := <-results[7]; got.err != nil || got.after > 4400*time.Millisecond {
			t.Errorf("freed after 3.3 s, answered %v after %v", got.err, got.after)
		}
		wantLocked(t, slices.Delete(results, 7, 8)...)
		for i := range 10 {
			tbl.free(strconv.Itoa(i))
		}
	})
}

// Requests are served in order of arrival, however often their statement timed out, and in groups within the bounds.
func TestSlowLaneKeepsTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	for _, bounds := range [][2]int{{1, 100}, {100, len("held")}} {
		synctest.Test(t, func(t *testing.T) {
			tbl := newTable("held")
			cfg := tbl.config()
			cfg.MaxItems, cfg.MaxBytes = bounds[0], bounds[1]
			c := start(t, cfg)
			tbl.hold("held")
			var results []<-chan result
			for i := range 5 {
				results = append(results, doAsync(t.Context(), c, add{id: i, key: "held", n: 1}))
				time.Sleep(90 * time.Millisecond)
			}
			tbl.free("held")
			for i, r := range results {
				if got := <-r; got.err != nil || got.value != i+1 {
					t.Errorf("caller %d got %d, %v", i, got.value, got.err)
				}
			}
			if largest := slices.Max(tbl.groupSizes()); largest > 1 {
				t.Errorf("a group has %d requests, of at most %d and %d bytes", largest, bounds[0], bounds[1])
			}
		})
	}
}

// A bad request fails alone whether its key is the only slow one or one of two.
func TestBadRequestInTheSlowLaneFailsAlone(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"x"}, {"x", "y"}} {
		synctest.Test(t, func(t *testing.T) {
			tbl, c := startTable(t, keys...)
			for _, key := range keys {
				tbl.hold(key)
			}
			good := send(t.Context(), c, adds(6, keys...)...)
			time.Sleep(100 * time.Millisecond)
			bad := doAsync(t.Context(), c, add{id: 99, key: "x", n: -1})
			time.Sleep(100 * time.Millisecond)
			for _, key := range keys {
				tbl.free(key)
			}
			wantAll(t, good...)
			if got := <-bad; !errors.Is(got.err, errBad) {
				t.Errorf("got %v, want errBad", got.err)
			}
			if tbl.value("x")+tbl.value("y") != 6 {
				t.Errorf("x=%d y=%d, want 6 together", tbl.value("x"), tbl.value("y"))
			}
		})
	}
}

// A table locked by DDL makes even a statement that skips row locks time out.
func TestLockedTableIsWaitedForInTheSlowLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		cfg := tbl.config()
		ddl := time.Now().Add(700 * time.Millisecond)
		cfg.Run = func(ctx context.Context, pass coalesce.Pass, group []add) ([]coalesce.Answer[int], error) {
			if left := time.Until(ddl); left > 0 {
				time.Sleep(min(left, 50*time.Millisecond))
				return nil, coalesce.ErrLockWait
			}
			return tbl.run(ctx, pass, group)
		}
		c := start(t, cfg)
		if v, err := c.Do(t.Context(), add{id: 1, key: "a", n: 1}); v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

// A hot key that was slow once becomes ordinary again as soon as its row is free,
// although a request always waits for it and another row stays locked.
func TestHotKeyLeavesTheSlowLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "hot", "stuck")
		tbl.before = func([]add) { time.Sleep(3 * time.Millisecond) }
		tbl.hold("hot", "stuck")
		stuck := doAsync(t.Context(), c, add{id: 1_000_000, key: "stuck", n: 1})
		time.AfterFunc(200*time.Millisecond, func() { tbl.free("hot") })
		var hot []<-chan result
		for i := range 3000 {
			hot = append(hot, doAsync(t.Context(), c, add{id: i, key: "hot", n: 1}))
			time.Sleep(time.Millisecond)
		}
		for i, r := range hot {
			got := <-r
			if got.err != nil {
				t.Fatal(got.err)
			}
			if i > 1000 && got.after > 10*time.Millisecond {
				t.Fatalf("caller %d waited %v beside a row that is not its own", i, got.after)
			}
		}
		wantLocked(t, stuck)
		tbl.free("stuck")
	})
}

// A table locked for longer than the lock timeout: the server's own timeout ends the
// statement, and the callers get ErrLocked.
func TestLockedTableIsSurelyNotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := newTable("a").config()
		statements := 0
		cfg.Run = func(context.Context, coalesce.Pass, []add) ([]coalesce.Answer[int], error) {
			statements++
			time.Sleep(cfg.LockTimeout)
			return nil, coalesce.ErrLockWait
		}
		c := start(t, cfg)
		got := <-doAsync(t.Context(), c, add{id: 1, key: "a", n: 1})
		if !errors.Is(got.err, coalesce.ErrLocked) || got.after != cfg.LockTimeout || statements != 1 {
			t.Errorf("got %v after %v and %d statements", got.err, got.after, statements)
		}
	})
}
