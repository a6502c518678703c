package coalesce_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

const (
	// comeBack is how long callers are waited for, statement how long one takes, and pause a client's time until its next
	// request.
	comeBack  = time.Millisecond
	statement = 400 * time.Microsecond
	pause     = 300 * time.Microsecond
)

// startSlowTable starts a coalescer whose statements take their time.
func startSlowTable(t *testing.T) (*table, *coalescer) {
	t.Helper()
	tbl, c := startTable(t, "a")
	tbl.before = func([]add) { time.Sleep(statement) }
	return tbl, c
}

// Clients that send one request after the other share every group but the first, in which one of them is alone.
func TestCallersThatComeBackShareAGroup(t *testing.T) {
	t.Parallel()
	for callers, want := range map[int][]int{
		2:  {1, 2, 2, 2, 1},
		8:  {1, 8, 8, 8, 7},
		32: {1, 32, 32, 32, 31},
		33: {1, 32, 1, 32, 1, 32, 1, 32}, // too many to wait for
	} {
		t.Run(strconv.Itoa(callers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl, c := startSlowTable(t)
				var clients sync.WaitGroup
				for i := range callers {
					clients.Go(func() {
						time.Sleep(min(1, time.Duration(i))) // one comes first
						for range 4 {
							if _, err := c.Do(t.Context(), add{id: i, key: "a", n: 1}); err != nil {
								t.Error(err)
							}
							time.Sleep(pause)
						}
					})
				}
				clients.Wait()
				if sizes := tbl.groupSizes(); !slices.Equal(sizes, want) {
					t.Errorf("groups of %v, want %v", sizes, want)
				}
			})
		})
	}
}

// A wait for which half of the expected callers come is not in vain: the others, which take longer to come back, do not
// end the waits for them.
func TestCallersThatComeBackAreWaitedForBesideOthers(t *testing.T) {
	t.Parallel()
	const fast, all, rounds = 6, 8, 30
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startSlowTable(t)
		var clients sync.WaitGroup
		for i := range all {
			between, first := time.Duration(i)*pause/fast, time.Duration(0)
			if i >= fast {
				between, first = 4*comeBack, 1 // one of them alone would be waited for in vain
			}
			clients.Go(func() {
				time.Sleep(first)
				for end := time.Now().Add(rounds * comeBack); time.Now().Before(end); time.Sleep(between) {
					if _, err := c.Do(t.Context(), add{id: i, key: "a", n: 1}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		sizes := tbl.groupSizes()
		slices.Sort(sizes)
		if few := 4; sizes[few] < fast { // the first and the last, and one that a slow caller happens to begin
			t.Errorf("groups of %v, want %d or more callers in all but %d", sizes, fast, few)
		}
	})
}

// A caller that does not come back delays others by comeBack, and after each such wait twice as many groups not at all.
func TestCallersThatDoNotComeBackAreWaitedForBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := startSlowTable(t)
		var waited []time.Duration
		for range 10 {
			results := send(t.Context(), c, adds(2, "a")...)
			wantAll(t, results[0])
			waited = append(waited, (<-results[1]).after-2*statement)
		}
		want := []time.Duration{comeBack, 0, comeBack, 0, 0, comeBack, 0, 0, 0, 0}
		if !slices.Equal(waited, want) {
			t.Errorf("waited for %v, want %v", waited, want)
		}
	})
}

// Callers that were answered long ago are not waited for.
func TestOldCrowdIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := startSlowTable(t)
		results := send(t.Context(), c, adds(2, "a")...)
		wantAll(t, results[0])
		wantAll(t, results[1], doAsync(t.Context(), c, add{id: 3, key: "a", n: 1})) // in one group
		time.Sleep(comeBack)
		if r := <-doAsync(t.Context(), c, add{id: 4, key: "a", n: 1}); r.after != statement {
			t.Errorf("answered after %v, want %v", r.after, statement)
		}
	})
}

// Several groups in flight do not wait for each other's callers.
func TestGroupsInFlightDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		tbl.before = func([]add) { time.Sleep(statement) }
		cfg := tbl.config()
		cfg.Limits = coalesce.Limits{LockTimeout: cfg.LockTimeout, StatementTimeout: cfg.StatementTimeout, InFlight: 2}
		c := start(t, cfg)
		results := send(t.Context(), c, adds(3, "a")...)
		wantAll(t, results[:2]...)
		if r := <-results[2]; r.after != 2*statement {
			t.Errorf("answered after %v, want %v", r.after, 2*statement)
		}
	})
}
