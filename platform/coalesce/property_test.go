package coalesce_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
)

// step is one event of a drawn history.
type step struct {
	kind  int // 0 to 3 a request, 4 another transaction locks a row, 5 frees one, 6 time passes
	key   int
	also  int // another key of the request, or none
	delay time.Duration
	leave time.Duration // when a request's context ends; 0 means never
	bad   bool
}

// TestPromises draws histories of requests, row locks and cancelled contexts, and checks
// for each request what its answer promises.
func TestPromises(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "b", "c"}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:  rapid.IntRange(0, 6).Draw(t, "kind"),
			key:   rapid.IntRange(0, len(keys)-1).Draw(t, "key"),
			also:  rapid.IntRange(-len(keys), len(keys)-1).Draw(t, "also"),
			delay: time.Duration(rapid.IntRange(0, 300).Draw(t, "delay")) * time.Millisecond,
			leave: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 60, 900}).Draw(t, "leave")) * time.Millisecond,
			bad:   rapid.IntRange(0, 9).Draw(t, "bad") == 0,
		}
	}), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		history := steps.Draw(rt, "history")
		inFlight := rapid.IntRange(1, 3).Draw(rt, "in flight")
		maxItems, maxBytes := rapid.IntRange(1, 5).Draw(rt, "max items"), rapid.IntRange(1, 5).Draw(rt, "max bytes")
		synctest.Test(t, func(t *testing.T) { replay(t, rt, keys, history, inFlight, maxItems, maxBytes) })
	})
}

func replay(t *testing.T, rt *rapid.T, keys []string, history []step, inFlight, maxItems, maxBytes int) {
	t.Helper()
	tbl := newTable(keys...)
	tbl.before = func([]add) { time.Sleep(3 * time.Millisecond) }
	cfg := tbl.config()
	cfg.InFlight, cfg.MaxItems, cfg.MaxBytes, cfg.LockTimeout = inFlight, maxItems, maxBytes, time.Second
	registry := prometheus.NewRegistry()
	cfg.Registry = registry
	c, err := coalesce.New(cfg)
	if err != nil {
		rt.Fatal(err)
	}
	all, cancelAll := context.WithCancel(t.Context())
	defer cancelAll()
	var requests []add
	var results []<-chan result
	for i, s := range history {
		switch s.kind {
		case 4:
			tbl.hold(keys[s.key])
		case 5:
			tbl.free(keys[s.key])
		case 6:
			time.Sleep(s.delay)
		default:
			q := add{id: i, key: keys[s.key], n: 1}
			if s.bad {
				q.n = -1
			}
			if s.also >= 0 && s.also != s.key {
				q.also = []string{keys[s.also]}
			}
			ctx, cancel := context.WithCancel(all)
			context.AfterFunc(all, cancel)
			if s.leave > 0 {
				time.AfterFunc(s.leave, cancel)
			}
			requests = append(requests, q)
			results = append(results, doAsync(ctx, c, q))
		}
	}
	for _, k := range keys {
		tbl.free(k)
	}
	if err := c.Close(t.Context()); err != nil {
		rt.Fatal(err)
	}
	got := make([]result, len(results))
	for i, r := range results {
		got[i] = <-r
	}
	check(rt, tbl, keys, requests, got)
	for _, group := range tbl.groups {
		items := 0
		for _, q := range group {
			items += len(q.keys())
		}
		if len(group) > 1 && (items > maxItems || len(group) > maxBytes) { // a key has one byte
			rt.Fatalf("a group has %d items, of at most %d, and %d bytes, of at most %d", items, maxItems, len(group), maxBytes)
		}
	}
	waiting := apptest.Gathered(t, registry, `rowlock_coalesce_queue_length{coalescer="test"}`)
	waits := apptest.Gathered(t, registry, `rowlock_coalesce_wait_seconds_count{coalescer="test"}`)
	if waiting != 0 || waits > float64(len(requests)) {
		rt.Fatalf("in the end %g requests wait, and %g waits of %d requests were recorded", waiting, waits, len(requests))
	}
}

// check compares each answer with what the table has applied.
func check(rt *rapid.T, tbl *table, keys []string, requests []add, got []result) {
	values := make(map[string][]int)
	acknowledged, unknown := make(map[string]int), make(map[string]int)
	for i, q := range requests {
		times := tbl.timesApplied(q.id)
		switch err := got[i].err; {
		case err == nil:
			values[q.key] = append(values[q.key], got[i].value)
			for _, key := range q.keys() {
				acknowledged[key]++
			}
			if times != 1 {
				rt.Fatalf("request %d was acknowledged and applied %d times", q.id, times)
			}
		case errors.Is(err, coalesce.ErrUnknown):
			for _, key := range q.keys() {
				unknown[key] += times
			}
			if times > 1 {
				rt.Fatalf("request %d was applied %d times", q.id, times)
			}
		case errors.Is(err, coalesce.ErrLeft), errors.Is(err, coalesce.ErrLocked),
			errors.Is(err, coalesce.ErrClosed), errors.Is(err, errBad):
			if times != 0 {
				rt.Fatalf("request %d was answered %v and applied %d times", q.id, err, times)
			}
		default:
			rt.Fatalf("request %d: unexpected %v", q.id, err)
		}
	}
	for _, k := range keys {
		slices.Sort(values[k])
		if len(slices.Compact(slices.Clone(values[k]))) != len(values[k]) {
			rt.Fatalf("two callers of %s got one value: %v", k, values[k])
		}
		if tbl.value(k) != acknowledged[k]+unknown[k] {
			rt.Fatalf("%s is %d after %d acknowledged and %d unknown", k, tbl.value(k), acknowledged[k], unknown[k])
		}
	}
}
