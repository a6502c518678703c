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
	"github.com/rowlock/rowlock/platform/waittest"
)

type coalescer = coalesce.Coalescer[string, add, int]

// startTable starts a coalescer over a table with these rows.
func startTable(t *testing.T, keys ...string) (*table, *coalescer) {
	t.Helper()
	tbl := newTable(keys...)
	return tbl, start(t, tbl.config())
}

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

// send calls Do for each request in turn, each when the one before waits.
func send(ctx context.Context, c *coalescer, requests ...add) []<-chan result {
	results := make([]<-chan result, len(requests))
	for i, q := range requests {
		results[i] = doAsync(ctx, c, q)
		synctest.Wait()
	}
	return results
}

// adds returns n requests of 1 each, whose keys are taken in turn.
func adds(n int, keys ...string) []add {
	requests := make([]add, n)
	for i := range requests {
		requests[i] = add{id: i, key: keys[i%len(keys)], n: 1}
	}
	return requests
}

// wantAll checks that every request was applied.
func wantAll(t *testing.T, results ...<-chan result) {
	t.Helper()
	for i, r := range results {
		if got := <-r; got.err != nil {
			t.Errorf("request %d: %v", i, got.err)
		}
	}
}

// wantLocked checks that every request was refused because its row stayed locked.
func wantLocked(t *testing.T, results ...<-chan result) {
	t.Helper()
	for i, r := range results {
		if got := <-r; !errors.Is(got.err, coalesce.ErrLocked) {
			t.Errorf("request %d: %v, want ErrLocked", i, got.err)
		}
	}
}

func TestIdleCallerDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := startTable(t, "a")
		begin := time.Now()
		v, err := c.Do(t.Context(), add{id: 1, key: "a", n: 2})
		if v != 2 || err != nil || time.Since(begin) != 0 {
			t.Fatalf("got %d, %v after %v; want 2, nil after 0", v, err, time.Since(begin))
		}
	})
}

func TestCallersContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "a")
		gate := tbl.gate()
		ctx, cancel := context.WithCancel(t.Context())
		results := send(ctx, c, add{id: 1, key: "a", n: 1}, add{id: 2, key: "a", n: 10})
		cancel()
		if r := <-results[0]; !errors.Is(r.err, coalesce.ErrUnknown) || !errors.Is(r.err, context.Canceled) {
			t.Errorf("sent: got %v, want ErrUnknown", r.err)
		}
		if r := <-results[1]; !errors.Is(r.err, coalesce.ErrLeft) || !errors.Is(r.err, context.Canceled) {
			t.Errorf("waiting: got %v, want ErrLeft", r.err)
		}
		close(gate)
		if v, err := c.Do(t.Context(), add{id: 3, key: "a", n: 100}); v != 101 || err != nil {
			t.Errorf("got %d, %v; want 101: the first was sent, the second withdrawn", v, err)
		}
		if _, err := c.Do(ctx, add{id: 4, key: "a", n: 1}); !errors.Is(err, coalesce.ErrLeft) {
			t.Errorf("ended context: got %v, want ErrLeft", err)
		}
	})
}

// endedContext ends, as a caller sees it, at the moment when its request is answered.
type endedContext struct{ context.Context } //nolint:containedctx // it is a context

func (endedContext) Done() <-chan struct{} {
	synctest.Wait()
	done := make(chan struct{})
	close(done)
	return done
}

// A request that was applied is not reported as withdrawn.
func TestAnswerAtTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := startTable(t, "a")
		for i := range 50 {
			if v, err := c.Do(endedContext{t.Context()}, add{id: i, key: "a", n: 1}); v != i+1 || err != nil {
				t.Fatalf("got %d, %v; want %d", v, err, i+1)
			}
		}
	})
}

func TestBadRequestFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl, c := startTable(t, "a")
		gate := tbl.gate()
		requests := adds(8, "a")
		requests[5].n, requests[6].key = -1, "missing" // a missing row is not a locked one
		results := send(t.Context(), c, requests...)
		close(gate)
		for i, r := range results {
			got := <-r
			if want := map[int]error{5: errBad, 6: errMissing}[i]; !errors.Is(got.err, want) {
				t.Errorf("caller %d got %v, want %v", i, got.err, want)
			}
		}
		if tbl.value("a") != 6 {
			t.Errorf("value %d, want 6", tbl.value("a"))
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
		tbl, c := startTable(t, "a", "b")
		tbl.hold("b")
		tbl.before = func([]add) { time.Sleep(time.Millisecond) }
		results := send(t.Context(), c, adds(20, "a", "b")...)
		time.AfterFunc(time.Second, func() { tbl.free("b") })
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantAll(t, results...)
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
		tbl, c := startTable(t, "a")
		tbl.hold("a")
		r := doAsync(t.Context(), c, add{id: 1, key: "a", n: 1})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		tbl.free("a")
		wantAll(t, r) // it is served all the same
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*coalesce.Config[string, add, int]){
		"no name":         func(c *coalesce.Config[string, add, int]) { c.Name = "" },
		"no key":          func(c *coalesce.Config[string, add, int]) { c.Key = nil },
		"no run":          func(c *coalesce.Config[string, add, int]) { c.Run = nil },
		"no lock timeout": func(c *coalesce.Config[string, add, int]) { c.LockTimeout = 0 },
		"no await":        func(c *coalesce.Config[string, add, int]) { c.Await = nil },
		"gate and groups": func(c *coalesce.Config[string, add, int]) { c.Gate, c.InFlight = coalesce.NewGate(), 2 },
		"no timeout":      func(c *coalesce.Config[string, add, int]) { c.StatementTimeout = 0 },
	} {
		cfg := newTable().config()
		change(&cfg)
		if _, err := coalesce.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestManyCallersExactly is the race test: every caller of a key gets another
// consecutive value while other transactions hold and free rows.
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
	var holder sync.WaitGroup
	holder.Go(func() {
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
	waittest.Together(t, callers, func(g int) error {
		for i := range each {
			key := names[(g+i)%keys]
			v, err := c.Do(t.Context(), add{id: g*each + i, key: key, n: 1})
			if err != nil {
				return err
			}
			mu.Lock()
			seen[key] = append(seen[key], v)
			mu.Unlock()
		}
		return nil
	})
	close(stop)
	holder.Wait()
	for _, key := range names {
		slices.Sort(seen[key])
		if len(seen[key]) != callers*each/keys {
			t.Errorf("%s: %d answers, want %d", key, len(seen[key]), callers*each/keys)
		}
		for i, v := range seen[key] {
			if v != i+1 {
				t.Fatalf("%s: value %d in place of %d: a value was repeated or lost", key, v, i+1)
			}
		}
	}
}
