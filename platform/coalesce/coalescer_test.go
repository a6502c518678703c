package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

type coalescer = coalesce.Coalescer[string, add, int]

func start(t *testing.T, cfg coalesce.Config[string, add, int]) *coalescer {
	t.Helper()
	c, err := coalesce.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// result is what one Do returned, and when, counted from the test's start.
type result struct {
	value int
	err   error
	after time.Duration
}

// doAsync calls Do in a goroutine and returns its result on a channel.
func doAsync(ctx context.Context, c *coalescer, q add) <-chan result {
	out := make(chan result, 1)
	begin := time.Now()
	go func() {
		v, err := c.Do(ctx, q)
		out <- result{v, err, time.Since(begin)}
	}()
	return out
}

func TestIdleCallerWaitsForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		c := start(t, tbl.config())
		begin := time.Now()
		v, err := c.Do(t.Context(), add{id: 1, key: "a", n: 2})
		if v != 2 || err != nil || time.Since(begin) != 0 {
			t.Fatalf("got %d, %v after %v; want 2, nil after 0", v, err, time.Since(begin))
		}
	})
}

func TestGroupFormsWhileTheOneBeforeIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a", "b")
		gate := make(chan struct{})
		tbl.before = func([]add) { <-gate }
		c := start(t, tbl.config())
		var results []<-chan result
		for i := range 10 {
			results = append(results, doAsync(t.Context(), c, add{id: i, key: []string{"a", "b"}[i%2], n: 1}))
			synctest.Wait()
		}
		close(gate)
		for i, r := range results {
			if got := <-r; got.err != nil || got.value != i/2+1 {
				t.Errorf("caller %d got %d, %v; want %d", i, got.value, got.err, i/2+1)
			}
		}
		if got := tbl.groupSizes(); !slices.Equal(got, []int{1, 9}) {
			t.Errorf("groups of %v, want [1 9]", got)
		}
	})
}

func TestGroupsKeepTheirBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		items, bytes    int
		want            []int
		keys            []string
		inFlight, queue int
	}{
		{name: "items", items: 4, want: []int{1, 4, 4, 1}},
		{name: "bytes", bytes: 3, want: []int{1, 3, 3, 3}},
		{name: "a request above the bytes goes alone", bytes: 3, keys: []string{"a", "long-key", "a", "a"}, want: []int{1, 1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				keys := tc.keys
				if keys == nil {
					keys = slices.Repeat([]string{"a"}, 10)
				}
				tbl := newTable(keys...)
				gate := make(chan struct{})
				tbl.before = func([]add) { <-gate }
				cfg := tbl.config()
				cfg.MaxItems, cfg.MaxBytes = tc.items, tc.bytes
				c := start(t, cfg)
				var results []<-chan result
				for i, k := range keys {
					results = append(results, doAsync(t.Context(), c, add{id: i, key: k, n: 1}))
					synctest.Wait()
				}
				close(gate)
				for _, r := range results {
					if got := <-r; got.err != nil {
						t.Error(got.err)
					}
				}
				if got := tbl.groupSizes(); !slices.Equal(got, tc.want) {
					t.Errorf("groups of %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestFullQueueRefusesAtTheDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		gate := make(chan struct{})
		tbl.before = func([]add) { <-gate }
		cfg := tbl.config()
		cfg.Queue = 3
		c := start(t, cfg)
		var results []<-chan result
		for i := range 4 { // one is sent, three wait
			results = append(results, doAsync(t.Context(), c, add{id: i, key: "a", n: 1}))
			synctest.Wait()
		}
		if _, err := c.Do(t.Context(), add{id: 9, key: "a", n: 1}); !errors.Is(err, coalesce.ErrQueueFull) {
			t.Fatalf("got %v, want ErrQueueFull", err)
		}
		close(gate)
		for _, r := range results {
			<-r
		}
		if tbl.value("a") != 4 || tbl.timesApplied(9) != 0 {
			t.Errorf("value %d, refused request applied %d times", tbl.value("a"), tbl.timesApplied(9))
		}
	})
}

func TestCallerThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		gate := make(chan struct{})
		tbl.before = func([]add) { <-gate }
		c := start(t, tbl.config())
		ctx, cancel := context.WithCancel(t.Context())
		onItsWay := doAsync(ctx, c, add{id: 1, key: "a", n: 1})
		synctest.Wait()
		waiting := doAsync(ctx, c, add{id: 2, key: "a", n: 10})
		synctest.Wait()
		cancel()
		if r := <-onItsWay; !errors.Is(r.err, coalesce.ErrUnknown) || !errors.Is(r.err, context.Canceled) {
			t.Errorf("sent: got %v, want ErrUnknown", r.err)
		}
		if r := <-waiting; !errors.Is(r.err, coalesce.ErrLeft) || !errors.Is(r.err, context.Canceled) {
			t.Errorf("waiting: got %v, want ErrLeft", r.err)
		}
		close(gate)
		if v, err := c.Do(t.Context(), add{id: 3, key: "a", n: 100}); v != 101 || err != nil {
			t.Errorf("got %d, %v; want 101: what was sent stands, what left in time does not", v, err)
		}
		if _, err := c.Do(ctx, add{id: 4, key: "a", n: 1}); !errors.Is(err, coalesce.ErrLeft) {
			t.Errorf("ended context: got %v, want ErrLeft", err)
		}
	})
}

func TestBadRequestFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		gate := make(chan struct{})
		tbl.before = func([]add) { <-gate }
		c := start(t, tbl.config())
		var results []<-chan result
		for i := range 8 {
			n := 1
			if i == 5 {
				n = -1
			}
			results = append(results, doAsync(t.Context(), c, add{id: i, key: "a", n: n}))
			synctest.Wait()
		}
		close(gate)
		for i, r := range results {
			got := <-r
			if bad := errors.Is(got.err, errBad); bad != (i == 5) || (!bad && got.err != nil) {
				t.Errorf("caller %d got %v", i, got.err)
			}
		}
		if tbl.value("a") != 7 {
			t.Errorf("value %d, want 7", tbl.value("a"))
		}
	})
}

func TestMissingRowIsNotALockedOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		c := start(t, tbl.config())
		if _, err := c.Do(t.Context(), add{id: 1, key: "ghost", n: 1}); !errors.Is(err, errMissing) {
			t.Errorf("got %v, want errMissing", err)
		}
	})
}

func TestBrokenRunIsUnknown(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, coalesce.Pass, []add) ([]coalesce.Answer[int], error){
		"panic": func(context.Context, coalesce.Pass, []add) ([]coalesce.Answer[int], error) { panic("boom") },
		"wrong number of answers": func(context.Context, coalesce.Pass, []add) ([]coalesce.Answer[int], error) {
			return nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := newTable("a").config()
			cfg.Run = run
			c := start(t, cfg)
			if _, err := c.Do(t.Context(), add{key: "a", n: 1}); !errors.Is(err, coalesce.ErrUnknown) {
				t.Errorf("got %v, want ErrUnknown", err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("close after the fault: %v", err)
			}
		})
	}
}

func TestCloseFinishesWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a", "b")
		tbl.hold("b")
		tbl.before = func([]add) { time.Sleep(time.Millisecond) }
		c := start(t, tbl.config())
		var results []<-chan result
		for i := range 20 {
			results = append(results, doAsync(t.Context(), c, add{id: i, key: []string{"a", "b"}[i%2], n: 1}))
		}
		synctest.Wait()
		time.AfterFunc(time.Second, func() { tbl.free("b") })
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			select {
			case got := <-r:
				if got.err != nil {
					t.Error(got.err)
				}
			default:
				synctest.Wait()
				if got := <-r; got.err != nil {
					t.Error(got.err)
				}
			}
		}
		if tbl.value("a") != 10 || tbl.value("b") != 10 {
			t.Errorf("a=%d b=%d, want 10 and 10", tbl.value("a"), tbl.value("b"))
		}
		if _, err := c.Do(t.Context(), add{key: "a", n: 1}); !errors.Is(err, coalesce.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		tbl.hold("a")
		c := start(t, tbl.config())
		r := doAsync(t.Context(), c, add{id: 1, key: "a", n: 1})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		tbl.free("a")
		if got := <-r; got.err != nil {
			t.Errorf("the work goes on all the same, but: %v", got.err)
		}
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*coalesce.Config[string, add, int]){
		"no name":         func(c *coalesce.Config[string, add, int]) { c.Name = "" },
		"no key":          func(c *coalesce.Config[string, add, int]) { c.Key = nil },
		"no run":          func(c *coalesce.Config[string, add, int]) { c.Run = nil },
		"no lock timeout": func(c *coalesce.Config[string, add, int]) { c.LockTimeout = 0 },
		"no run timeout":  func(c *coalesce.Config[string, add, int]) { c.RunTimeout = 0 },
	} {
		cfg := newTable().config()
		spoil(&cfg)
		if _, err := coalesce.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestManyCallersExactly is the race test: every caller of a key gets another
// consecutive value while strangers hold and free rows.
func TestManyCallersExactly(t *testing.T) {
	t.Parallel()
	const callers, each, keys = 64, 200, 8
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("k%d", i)
	}
	tbl := newTable(names...)
	cfg := tbl.config()
	cfg.BriefWait, cfg.InFlight = time.Millisecond, 2
	c := start(t, cfg)

	stop := make(chan struct{})
	var stranger, work sync.WaitGroup
	stranger.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			tbl.hold(names[i%keys])
			select {
			case <-tick.C:
				tbl.free(names[i%keys])
			case <-stop:
				tbl.free(names[i%keys])
				return
			}
		}
	})
	var mu sync.Mutex
	seen := make(map[string][]int)
	begin := make(chan struct{})
	for g := range callers {
		work.Go(func() {
			<-begin
			for i := range each {
				key := names[(g+i)%keys]
				v, err := c.Do(t.Context(), add{id: g*each + i, key: key, n: 1})
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				mu.Lock()
				seen[key] = append(seen[key], v)
				mu.Unlock()
			}
		})
	}
	close(begin)
	work.Wait()
	close(stop)
	stranger.Wait()
	for _, key := range names {
		slices.Sort(seen[key])
		for i, v := range seen[key] {
			if v != i+1 {
				t.Fatalf("%s: value %d stands where %d should: a value was doubled or lost", key, v, i+1)
			}
		}
		if len(seen[key]) != callers*each/keys {
			t.Errorf("%s: %d answers, want %d", key, len(seen[key]), callers*each/keys)
		}
	}
}
