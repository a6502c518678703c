package attempttest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// together releases n goroutines at once and waits for them.
func together(n int, do func(i int)) {
	var done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		done.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	done.Wait()
}

func numbered(n int) []attempt.Item {
	items := make([]attempt.Item, n)
	for i := range items {
		items[i] = attempt.Item(fmt.Sprintf("item-%05d", i))
	}
	return items
}

// hotItem: of many that add or delete one item one does, and no increment is lost.
func hotItem(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	const n = 60
	count := func(change attempt.Change) int64 {
		var total atomic.Int64
		together(n, func(int) {
			k, err := repo.One(ctx, change, list, "hot", "")
			if err != nil {
				t.Error(err)
			}
			total.Add(k)
		})
		return total.Load()
	}
	if got := count(attempt.Add); got != 1 {
		t.Errorf("%d adds were counted, want 1", got)
	}
	if got := count(attempt.Increment); got != n {
		t.Errorf("%d increments were counted, want %d", got, n)
	}
	if got := must[int64](t)(repo.Get(ctx, list, "hot")); got != n {
		t.Errorf("%d attempts, want %d", got, n)
	}
	if got := count(attempt.Delete); got != 1 {
		t.Errorf("%d deletes were counted, want 1", got)
	}
}

// singleItems: callers of many items in many lists, each kind of call at once.
func singleItems(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	items := numbered(12)
	lists := []attempt.List{"b", "a", "B"}
	var want [3][12]atomic.Int64
	for _, l := range lists {
		must[int64](t)(repo.Many(ctx, attempt.Add, l, attempt.ItemsOf(items...), ""))
	}
	together(24, func(c int) {
		for i := range 20 {
			l, k := (c+i)%3, (c*i+c)%12
			n, err := repo.One(ctx, attempt.Increment, lists[l], items[k], "")
			if err != nil || n != 1 {
				t.Errorf("increment: %d %v", n, err)
			}
			want[l][k].Add(1)
			got, err := repo.Get(ctx, lists[l], items[k])
			if err != nil || got < 1 {
				t.Errorf("an item that was incremented has %d attempts, %v", got, err)
			}
			if n, err := repo.One(ctx, attempt.Increment, lists[l], "absent", ""); err != nil || n != 0 {
				t.Errorf("absent: %d %v", n, err)
			}
			if n, err := repo.One(ctx, attempt.Add, lists[l], items[k], ""); err != nil || n != 0 {
				t.Errorf("add of what is there: %d %v", n, err)
			}
		}
	})
	for l := range lists {
		for k, item := range items {
			if got := must[int64](t)(repo.Get(ctx, lists[l], item)); got != want[l][k].Load() {
				t.Errorf("%q of %q has %d attempts, want %d", item, lists[l], got, want[l][k].Load())
			}
		}
	}
}

// overlappingBatches: adds and deletes of the same items balance, and so do the
// increments of others.
func overlappingBatches(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	const callers, rounds = 8, 12
	items := numbered(80)
	stable, moving := items[:40], items[40:]
	must[int64](t)(repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(stable...), ""))
	var added, deleted, incremented, sent atomic.Int64
	together(callers, func(c int) {
		for i := range rounds {
			some := func(of []attempt.Item) *attempt.Items {
				shuffled := slices.Clone(of)
				rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				return attempt.ItemsOf(shuffled[:len(shuffled)/2]...)
			}
			var n int64
			var err error
			switch (c + i) % 4 {
			case 0:
				n, err = repo.Many(ctx, attempt.Add, list, some(moving), "")
				added.Add(n)
			case 1:
				n, err = repo.Many(ctx, attempt.Delete, list, some(moving), "")
				deleted.Add(n)
			case 2:
				next := true
				n, err = repo.Stage(ctx, attempt.Increment, list, func() (*attempt.Items, error) {
					if !next {
						return whole()()
					}
					next = false
					return some(stable), nil
				}, "")
				if errors.Is(err, attempt.ErrBusy) {
					continue
				}
				incremented.Add(n)
				sent.Add(20)
			default:
				n, err = repo.Many(ctx, attempt.Increment, list, some(stable), "")
				incremented.Add(n)
				sent.Add(20)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	var left, attempts int64
	for _, e := range must[[]attempt.Entry](t)(repo.Page(ctx, list, "", attempt.MaxPage)) {
		if e.Item >= moving[0] {
			left++
			continue
		}
		attempts += e.Attempts
	}
	if left != added.Load()-deleted.Load() {
		t.Errorf("%d items are there after %d adds and %d deletes", left, added.Load(), deleted.Load())
	}
	if attempts != incremented.Load() || attempts != sent.Load() {
		t.Errorf("%d attempts; %d increments were counted, %d sent", attempts, incremented.Load(), sent.Load())
	}
}

// overlappingAdds: each item is new for one of those that add it at once.
func overlappingAdds(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	const callers, rounds, each = 8, 6, 40
	items := numbered((rounds + 1) * each)
	must[int64](t)(repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(items[:each]...), "")) // all of it is new
	var added atomic.Int64
	for i := 1; i <= rounds; i++ {
		together(callers, func(c int) {
			some := slices.Clone(items[i*each:][:each])
			rand.Shuffle(each, func(i, j int) { some[i], some[j] = some[j], some[i] })
			n, err := repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(some[:each-c]...), "")
			if err != nil {
				t.Error(err)
			}
			added.Add(n)
		})
	}
	if want := int64(rounds * each); added.Load() != want {
		t.Errorf("%d were added, want %d", added.Load(), want)
	}
}

// oppositeOrder: long batches over the same items from both ends do not deadlock.
func oppositeOrder(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	forth := numbered(3000)
	back := slices.Clone(forth)
	slices.Reverse(back)
	for _, change := range []attempt.Change{attempt.Add, attempt.Increment, attempt.Delete} {
		var total atomic.Int64
		together(2, func(i int) {
			n, err := repo.Stage(ctx, change, list, parts([][]attempt.Item{forth, back}[i], 700, io.EOF), "")
			if err != nil {
				t.Errorf("%v: %v", change, err)
			}
			total.Add(n)
		})
		want := int64(len(forth))
		if change == attempt.Increment {
			want *= 2
		}
		if total.Load() != want {
			t.Errorf("%v: %d, want %d", change, total.Load(), want)
		}
	}
}

// claimers: each item goes to one of them, and what one deletes is gone.
func claimers(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	items := numbered(600)
	must[int64](t)(repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(items...), ""))
	var mu sync.Mutex
	worked := make(map[attempt.Item]int)
	together(8, func(int) {
		for {
			l, err := repo.Claim(ctx, list, 17, time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			if l.Claim == "" {
				return
			}
			mu.Lock()
			for _, e := range l.Entries {
				worked[e.Item]++
			}
			mu.Unlock()
			n, err := repo.Many(ctx, attempt.Delete, list, attempt.ItemsOf(itemsOf(l.Entries)...), l.Claim)
			if err != nil || n != int64(len(l.Entries)) {
				t.Errorf("deleted %d of %d: %v", n, len(l.Entries), err)
			}
		}
	})
	for _, item := range items {
		if worked[item] != 1 {
			t.Errorf("%q was worked on %d times", item, worked[item])
		}
	}
	if must[bool](t)(repo.Exists(ctx, list)) {
		t.Error("something is left")
	}
}

// claimedIncrements: a change with a claim counts exactly while the claim holds,
// whatever others do to the row meanwhile.
func claimedIncrements(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	ctx := t.Context()
	items := numbered(20)
	f.many(attempt.Add, "", 20, items...)
	claim := f.claim(10, time.Minute, items[:10]...)
	var counted atomic.Int64
	together(12, func(i int) {
		var n int64
		var err error
		switch i % 3 {
		case 0:
			n, err = repo.Many(ctx, attempt.Increment, list, attempt.ItemsOf(items...), claim)
			if n != 10 {
				t.Errorf("the claim counted %d, want 10", n)
			}
		case 1:
			n, err = repo.Many(ctx, attempt.Increment, list, attempt.ItemsOf(items...), "")
			if n != 20 {
				t.Errorf("everything counted %d, want 20", n)
			}
		default:
			n, err = repo.Many(ctx, attempt.Increment, list, attempt.ItemsOf(items...), never)
			if n != 0 {
				t.Errorf("nobody's claim counted %d", n)
			}
		}
		if err != nil {
			t.Error(err)
		}
		counted.Add(n)
	})
	var attempts int64
	for _, e := range must[[]attempt.Entry](t)(repo.Page(ctx, list, "", attempt.MaxPage)) {
		attempts += e.Attempts
	}
	if attempts != counted.Load() {
		t.Errorf("%d attempts, %d were counted", attempts, counted.Load())
	}
}

// deletesBesideIncrements: a row that was changed while a delete waited for it is
// deleted all the same, and each item is deleted once.
func deletesBesideIncrements(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	items := numbered(200)
	must[int64](t)(repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(items...), ""))
	var deleted atomic.Int64
	together(12, func(i int) {
		for round := range 10 {
			part := attempt.ItemsOf(items[round*20 : (round+1)*20]...)
			if i%2 == 0 {
				if _, err := repo.Many(ctx, attempt.Increment, list, part, ""); err != nil {
					t.Error(err)
				}
				continue
			}
			n, err := repo.Many(ctx, attempt.Delete, list, part, "")
			if err != nil {
				t.Error(err)
			}
			deleted.Add(n)
		}
	})
	if deleted.Load() != int64(len(items)) || must[bool](t)(repo.Exists(ctx, list)) {
		t.Errorf("%d of %d items were deleted", deleted.Load(), len(items))
	}
}
