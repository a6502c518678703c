package attempttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

func numbered(n int) []attempt.Item {
	items := make([]attempt.Item, n)
	for i := range items {
		items[i] = attempt.Item(fmt.Sprintf("item-%05d", i))
	}
	return items
}

// shuffled returns the first n items in random order after shuffling them.
func shuffled(items []attempt.Item, n int) *attempt.Items {
	items = slices.Clone(items)
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return attempt.ItemsOf(items[:n]...)
}

// sum returns the number of entries and of their attempts.
func sum(entries []attempt.Entry) (n int, attempts int64) {
	for _, e := range entries {
		attempts += e.Attempts
	}
	return len(entries), attempts
}

// hotItem: of concurrent adds or deletes of one item, one counts, and no increment is lost.
func hotItem(f fixture) {
	const n = 60
	for _, c := range []struct {
		change attempt.Change
		want   int64
	}{{attempt.Add, 1}, {attempt.Increment, n}, {attempt.Delete, 1}} {
		var total atomic.Int64
		waittest.Together(f, n, func(int) error {
			k, err := f.repo.Apply(f.Context(), c.change, list, "hot", "")
			total.Add(k)
			return err
		})
		f.want(c.change.String(), total.Load(), nil, c.want)
		if c.change == attempt.Increment {
			f.attempts(list, "hot", n)
		}
	}
}

// manyItems: concurrent calls of every kind, for many items in several lists, return exact counts.
func manyItems(f fixture) {
	ctx, items, lists := f.Context(), numbered(12), []attempt.List{"b", "a", "B"}
	var want [3][12]atomic.Int64
	for _, l := range lists {
		must(f.repo.ApplyBatch(ctx, attempt.Add, l, attempt.ItemsOf(items...), ""))(f.T)
	}

	waittest.Together(f, 24, func(c int) error {
		for i := range 20 {
			l, k := (c+i)%3, (c*i+c)%12
			n, err := f.repo.Apply(ctx, attempt.Increment, lists[l], items[k], "")
			f.want("increment", n, err, 1)
			want[l][k].Add(1)

			if n, err := f.repo.Get(ctx, lists[l], items[k]); err != nil || n < 1 {
				f.Errorf("an item that was incremented has %d attempts, %v", n, err)
			}
			n, err = f.repo.Apply(ctx, attempt.Increment, lists[l], "absent", "")
			f.want("increment of an absent item", n, err, 0)
			n, err = f.repo.Apply(ctx, attempt.Add, lists[l], items[k], "")
			f.want("add of an item that is there", n, err, 0)
		}
		return nil
	})

	for l := range lists {
		for k, item := range items {
			f.attempts(lists[l], item, want[l][k].Load())
		}
	}
}

// overlappingBatches: adds and deletes of the same items balance, and no increment of
// the other items is lost.
func overlappingBatches(f fixture) {
	const callers, rounds, each = 8, 12, 20
	ctx, items := f.Context(), numbered(4*each)
	stable, moving := items[:2*each], items[2*each:]
	f.many(attempt.Add, "", 2*each, stable...)

	var added, deleted, incremented, sent atomic.Int64
	part := func(yield func(*attempt.Items, error) bool) { yield(shuffled(stable, each), nil) }
	waittest.Together(f, callers, func(c int) error {
		for i := range rounds {
			var n int64
			var err error
			switch (c + i) % 4 {
			case 0:
				n, err = f.repo.ApplyBatch(ctx, attempt.Add, list, shuffled(moving, each), "")
				added.Add(n)
			case 1:
				n, err = f.repo.ApplyBatch(ctx, attempt.Delete, list, shuffled(moving, each), "")
				deleted.Add(n)
			case 2:
				n, err = f.repo.ApplyStaged(ctx, attempt.Increment, list, part, "")
				if errors.Is(err, attempt.ErrBusy) {
					continue
				}
				incremented.Add(n)
				sent.Add(each)
			default:
				n, err = f.repo.ApplyBatch(ctx, attempt.Increment, list, shuffled(stable, each), "")
				incremented.Add(n)
				sent.Add(each)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})

	n, attempts := sum(f.all())
	f.want("items left", int64(n-len(stable)), nil, added.Load()-deleted.Load())
	f.want("attempts", attempts, nil, sent.Load())
	f.want("increments that were counted", incremented.Load(), nil, sent.Load())
}

// claimers: each item goes to one of several concurrent claimers, and no item is left after they delete theirs.
func claimers(f fixture) {
	ctx, items := f.Context(), numbered(600)
	f.many(attempt.Add, "", 600, items...)

	var mu sync.Mutex
	worked := make(map[attempt.Item]int)
	waittest.Together(f, 8, func(int) error {
		for {
			l, err := f.repo.Claim(ctx, list, 17, time.Minute)
			if err != nil || l.Claim == "" {
				return err
			}
			mu.Lock()
			for e := range l.Entries.All() {
				worked[e.Item]++
			}
			mu.Unlock()
			n, err := f.repo.ApplyBatch(ctx, attempt.Delete, list, attempt.ItemsOf(itemsOf(listed(l.Entries))...), l.Claim)
			f.want("delete", n, err, int64(l.Entries.Len()))
		}
	})

	for _, item := range items {
		if worked[item] != 1 {
			f.Errorf("%q was worked on %d times", item, worked[item])
		}
	}
	f.entries()
}

// oppositeOrder: long batches of the same items in opposite order do not deadlock.
func oppositeOrder(f fixture) {
	forth := numbered(3000)
	back := slices.Clone(forth)
	slices.Reverse(back)
	for _, change := range attempt.Changes() {
		var total atomic.Int64
		waittest.Together(f, 2, func(i int) error {
			next := parts([][]attempt.Item{forth, back}[i], 700, nil)
			n, err := f.repo.ApplyStaged(f.Context(), change, list, next, "")
			total.Add(n)
			return err
		})
		want := int64(len(forth))
		if change == attempt.Increment {
			want *= 2
		}
		f.want(change.String(), total.Load(), nil, want)
	}
}
