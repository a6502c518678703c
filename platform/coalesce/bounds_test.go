package coalesce_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// The next group forms while the first one, of a single request, runs.
func TestGroupsKeepTheirBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		items, bytes int
		want         []int
		keys         []string
	}{
		{"none is reached", 0, 0, []int{1, 9}, slices.Repeat([]string{"a"}, 10)},
		{"items", 4, 0, []int{1, 4, 4, 1}, slices.Repeat([]string{"a"}, 10)},
		{"bytes", 0, 3, []int{1, 3, 3, 3}, slices.Repeat([]string{"a"}, 10)},
		{"a request above the bytes goes alone", 0, 3, []int{1, 1, 2}, []string{"a", "long-key", "a", "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tbl := newTable(tc.keys...)
				gate := tbl.gate()
				cfg := tbl.config()
				cfg.MaxItems, cfg.MaxBytes = tc.items, tc.bytes
				c := start(t, cfg)
				results := send(t.Context(), c, adds(len(tc.keys), tc.keys...)...)
				close(gate)
				wantAll(t, results...)
				if got := tbl.groupSizes(); !slices.Equal(got, tc.want) {
					t.Errorf("groups of %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// Callers that are ready to run when a group is about to be taken come into it, without a timer: on one processor the
// first caller's group would otherwise be sent before the others run.
//
//nolint:paralleltest // it takes the processors from all other tests
func TestReadyCallersJoinTheGroup(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers = 8
	tbl, c := startTable(t, "a")
	results := make([]<-chan result, callers)
	for i, q := range adds(callers, "a") {
		results[i] = doAsync(t.Context(), c, q)
	}
	wantAll(t, results...)
	if got := tbl.groupSizes(); !slices.Equal(got, []int{callers}) {
		t.Errorf("groups of %v, want one of %d", got, callers)
	}
}

// A long queue gives its memory back while it drains, and loses no request by that.
func TestLongQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		gate := tbl.gate()
		cfg := tbl.config()
		cfg.Queue = 3000
		c := start(t, cfg)
		results := make([]<-chan result, 3000)
		for i, q := range adds(len(results), "a") {
			results[i] = doAsync(t.Context(), c, q)
		}
		synctest.Wait()
		close(gate)
		wantAll(t, results...)
		if tbl.value("a") != len(results) {
			t.Errorf("value %d, want %d", tbl.value("a"), len(results))
		}
	})
}

// As many groups as allowed run at once, each for as long as its statements may take.
func TestGroupsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := newTable("a").config()
		cfg.InFlight, cfg.Statements = 2, 3
		begin, running := time.Now(), 0
		cfg.Run = func(ctx context.Context, _ coalesce.Pass, _ []add) ([]coalesce.Answer[int], error) {
			running++
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := start(t, cfg)
		results := send(t.Context(), c, adds(2, "a")...)
		if running != 2 {
			t.Errorf("%d groups run at once, want 2", running)
		}
		for _, r := range results {
			got, limit := <-r, 3*cfg.StatementTimeout+2*sqldb.Grace
			if !errors.Is(got.err, context.DeadlineExceeded) || time.Since(begin) != limit {
				t.Errorf("got %v after %s, want the end of the time after %s", got.err, time.Since(begin), limit)
			}
		}
	})
}

func TestFullQueueRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := newTable("a")
		gate := tbl.gate()
		cfg := tbl.config()
		cfg.Queue = 3
		c := start(t, cfg)
		results := send(t.Context(), c, adds(4, "a")...) // one is sent, three wait
		if _, err := c.Do(t.Context(), add{id: 9, key: "a", n: 1}); !errors.Is(err, coalesce.ErrQueueFull) {
			t.Fatalf("got %v, want ErrQueueFull", err)
		}
		close(gate)
		wantAll(t, results...)
		if tbl.value("a") != 4 || tbl.timesApplied(9) != 0 {
			t.Errorf("value %d, refused request applied %d times", tbl.value("a"), tbl.timesApplied(9))
		}
	})
}
