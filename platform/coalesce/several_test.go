package coalesce_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
)

// Requests of a free row and a locked one, of which some come all the time, delay no caller of the free row: neither
// while they wait, nor before their other row is known as locked, nor by keeping the free one locked themselves.
func TestRequestOfALockedRowAndAFreeOneDelaysNoCallerOfTheFreeOne(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]add{
		"the first key is locked": {key: "held", n: 1, also: []string{"a", "z"}},
		"another key is locked":   {key: "a", n: 1, also: []string{"z", "held"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl, c := startTable(t, "a", "held", "z")
				_, another := tbl, start(t, tbl.config()) // a replica of its own
				tbl.hold("held")
				time.AfterFunc(3*time.Second, func() { tbl.free("held") })
				var singles, batches []<-chan result
				for i := range 400 {
					if i%40 == 0 {
						q := batch
						q.id = 1000 + i
						batches = append(batches, doAsync(t.Context(), c, q))
					}
					for r, replica := range []*coalescer{c, another} {
						q := add{id: 2*i + r, key: []string{"a", "z"}[i%2], n: 1}
						singles = append(singles, doAsync(t.Context(), replica, q))
					}
					time.Sleep(5 * time.Millisecond)
				}
				slow := 0
				for i, r := range singles {
					got := <-r
					if got.err != nil || got.after > 120*time.Millisecond {
						t.Errorf("single %d: %v after %v", i, got.err, got.after)
					}
					if got.after > 0 {
						slow++
					}
				}
				if slow > 40 { // those of the brief wait before the row is known as locked
					t.Errorf("%d of %d singles waited", slow, len(singles))
				}
				wantAll(t, batches...)
				if tbl.value("held") != 10 || tbl.value("a") != 410 || tbl.value("z") != 410 {
					t.Errorf("held=%d a=%d z=%d, want 10, 410, 410", tbl.value("held"), tbl.value("a"), tbl.value("z"))
				}
			})
		})
	}
}

// A request that stood in the lane of one row and meets another that is locked goes to that one's lane, with a place
// there in place of the other.
func TestRequestMovesToTheLaneOfTheRowThatIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a", "b")
		cfg := tbl.config()
		cfg.Share = contention.NewShare(8, nil) // two places a key
		c := start(t, cfg)
		tbl.hold("a")
		both := doAsync(t.Context(), c, add{id: 1, key: "a", n: 1, also: []string{"b"}})
		time.Sleep(200 * time.Millisecond)
		tbl.hold("b")
		tbl.free("a")
		time.Sleep(2 * time.Second) // it has met b

		var ofA []<-chan result
		for i := range 4 {
			ofA = append(ofA, doAsync(t.Context(), c, add{id: 10 + i, key: "a", n: 1}))
		}
		wantAll(t, ofA...) // a is free, and its places are too
		ofB := send(t.Context(), c, add{id: 20, key: "b", n: 1}, add{id: 21, key: "b", n: 1})
		if got := <-ofB[1]; !errors.Is(got.err, contention.ErrCrowded) || cfg.Share.Free() != 2 {
			t.Errorf("the third request of b got %v, %d places are free; want ErrCrowded, and 2", got.err, cfg.Share.Free())
		}
		tbl.free("b")
		wantAll(t, both, ofB[0])
		if cfg.Share.Free() != 4 || tbl.value("a") != 5 || tbl.value("b") != 2 {
			t.Errorf("%d places are free, a=%d b=%d; want 4, 5, 2", cfg.Share.Free(), tbl.value("a"), tbl.value("b"))
		}
	})
}

// A request one of whose rows is known as locked waits in this row's lane, and no group of the main lane carries it.
func TestRequestWaitsInTheLaneOfAnyOfItsKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "a", "b")
		tbl.hold("b")
		first := doAsync(t.Context(), c, add{id: 1, key: "b", n: 1})
		time.Sleep(time.Second) // b is known as locked
		both := doAsync(t.Context(), c, add{id: 2, key: "a", n: 1, also: []string{"b"}})
		synctest.Wait()
		if got := <-doAsync(t.Context(), c, add{id: 3, key: "a", n: 1}); got.err != nil || got.after != 0 {
			t.Errorf("a caller of a got %v after %v, want an answer at once", got.err, got.after)
		}
		tbl.free("b")
		wantAll(t, first, both)
	})
}

// A group's items are its requests' weights, in every lane.
func TestWeightsBoundAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a", "b", "c")
		gate := tbl.gate()
		cfg := tbl.config()
		cfg.MaxItems = 4
		c := start(t, cfg)
		requests := adds(8, "a")
		for i := range requests[2:] {
			requests[2+i].also = []string{"b", "c"}[:1+i%2]
		}
		results := send(t.Context(), c, requests...)
		close(gate)
		wantAll(t, results...)
		if got, want := tbl.groupSizes(), []int{1, 2, 1, 1, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("groups of %v, want %v: weights of 1, 1, 2, 3, 2, 3, 2, 3", got, want)
		}
	})
}

// A request waits only where there is room for all of its items: large ones leave room to small ones.
func TestQueueItemsBoundTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a", "b", "c")
		gate := tbl.gate()
		cfg := tbl.config()
		cfg.QueueItems = 4
		c := start(t, cfg)
		requests := adds(4, "a")
		requests[0].also = []string{"b", "c"} // is sent
		requests[1].also, requests[2].also = []string{"b"}, []string{"b"}
		results := send(t.Context(), c, requests[0], requests[1], requests[3]) // the last two wait: 3 items
		refuse := func(q add) {
			t.Helper()
			if got := <-doAsync(t.Context(), c, q); !errors.Is(got.err, coalesce.ErrQueueFull) {
				t.Errorf("request %d got %v, want ErrQueueFull", q.id, got.err)
			}
		}
		refuse(requests[2])
		results = append(results, doAsync(t.Context(), c, add{id: 8, key: "c", n: 1}))
		synctest.Wait()
		refuse(add{id: 9, key: "c", n: 1})
		close(gate)
		wantAll(t, results...)
		wantAll(t, send(t.Context(), c, requests[1:3]...)...) // all room is given back
	})
}

// A failure of Await is an answer to the calls that waited for it.
func TestAwaitFails(t *testing.T) {
	t.Parallel()
	errAway := errors.New("the database is away")
	for name, await := range map[string]func(context.Context, coalesce.Pass, []string) ([]string, error){
		"an error": func(context.Context, coalesce.Pass, []string) ([]string, error) { return nil, errAway },
		"a panic":  func(context.Context, coalesce.Pass, []string) ([]string, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl := newTable("a", "b")
				cfg := tbl.config()
				cfg.Await = await
				c := start(t, cfg)
				tbl.hold("a")
				_, err := c.Do(t.Context(), add{key: "a", n: 1, also: []string{"b"}})
				if !errors.Is(err, errAway) && !errors.Is(err, coalesce.ErrUnknown) {
					t.Errorf("got %v", err)
				}
				tbl.free("a")
			})
		})
	}
}

// A request of several rows that is the first to ask for a row known as locked is not run before the row is free: the
// statement would lock its other rows.
func TestProbeOfSeveralRowsLocksNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "a", "b")
		tbl.hold("b")
		wantLocked(t, doAsync(t.Context(), c, add{id: 1, key: "b", n: 1}))
		sent := 0
		tbl.before = func([]add) { sent++ }
		both := doAsync(t.Context(), c, add{id: 2, key: "a", n: 1, also: []string{"b"}})
		behind := doAsync(t.Context(), c, add{id: 3, key: "a", n: 1, also: []string{"b"}})
		time.Sleep(time.Second)
		if sent != 0 {
			t.Errorf("%d statements while the row was locked", sent)
		}
		tbl.free("b")
		wantAll(t, both, behind)
	})
}

// It finds the row free at once, and so do those that came until its answer.
func TestProbeOfSeveralRowsFindsTheRowFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "a", "b")
		tbl.hold("b")
		wantLocked(t, doAsync(t.Context(), c, add{id: 1, key: "b", n: 1}))
		tbl.free("b")
		for _, r := range send(t.Context(), c, ofBoth(3)...) {
			if got := <-r; got.err != nil || got.after != 0 {
				t.Errorf("got %v after %v, want an answer at once", got.err, got.after)
			}
		}
		if c.Known() != 0 {
			t.Errorf("%d keys are known as locked, and none is", c.Known())
		}
	})
}

// ofBoth returns n requests of the rows a and b.
func ofBoth(n int) []add {
	requests := adds(n, "a")
	for i := range requests {
		requests[i].also = []string{"b"}
	}
	return requests
}
