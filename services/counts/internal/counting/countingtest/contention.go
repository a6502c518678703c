package countingtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// together releases n goroutines at once and waits for them.
func together(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			do(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// hotItem: n concurrent changes give n different consecutive values.
func hotItem(t *testing.T, repo counting.CountValueRepository) {
	ctx := t.Context()
	const n = 100
	must[counting.CountValue](t)(repo.Create(ctx, "hot", 1000))
	got := make([]int64, n)
	together(n, func(i int) {
		v, err := repo.Add(ctx, "hot", 1)
		if err != nil {
			t.Error(err)
		}
		got[i] = v
	})
	slices.Sort(got)
	for i, v := range got {
		if v != int64(1001+i) {
			t.Fatalf("value %d stands where %d should: answers are not consecutive", v, 1001+i)
		}
	}
	wantValue(ctx, t, repo, "hot", 1000+n)
}

// mixedItems: callers of many items, up and down, present and absent.
func mixedItems(t *testing.T, repo counting.CountValueRepository) {
	ctx := t.Context()
	const items, callers, each = 7, 20, 30
	ids := make([]counting.ItemID, items)
	for i := range ids {
		ids[i] = counting.ItemID(fmt.Sprintf("item-%d", i))
		must[counting.CountValue](t)(repo.Create(ctx, ids[i], 0))
	}
	var want [items]atomic.Int64
	together(callers, func(c int) {
		for i := range each {
			k := (c*i + c) % items
			delta := int64(1 + i)
			if (c+i)%3 == 0 {
				delta = -delta
			}
			if _, err := repo.Add(ctx, ids[k], delta); err != nil {
				t.Error(err)
			}
			want[k].Add(delta)
			if _, err := repo.Add(ctx, "absent", 1); !errors.Is(err, counting.ErrNotFound) {
				t.Errorf("absent: %v", err)
			}
		}
	})
	for k, id := range ids {
		wantValue(ctx, t, repo, id, want[k].Load())
	}
}

// oneCreator: of n that create one id, exactly one wins.
func oneCreator(t *testing.T, repo counting.CountValueRepository) {
	ctx := t.Context()
	var won atomic.Int64
	together(20, func(i int) {
		switch _, err := repo.Create(ctx, "new", int64(i)); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, counting.ErrExists):
			t.Error(err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d creators won, want 1", won.Load())
	}
}

// edgeRace: 50 take one each of the 20 steps that are left, beside others.
func edgeRace(t *testing.T, repo counting.CountValueRepository) {
	ctx := t.Context()
	const left, callers = 20, 50
	must[counting.CountValue](t)(repo.Create(ctx, "edge", math.MaxInt64-left))
	must[counting.CountValue](t)(repo.Create(ctx, "other", 0))
	var won, refused atomic.Int64
	together(2*callers, func(i int) {
		if i%2 == 0 {
			if _, err := repo.Add(ctx, "other", 1); err != nil {
				t.Errorf("other: %v", err)
			}
			return
		}
		switch _, err := repo.Add(ctx, "edge", 1); {
		case err == nil:
			won.Add(1)
		case errors.Is(err, counting.ErrOverflow):
			refused.Add(1)
		default:
			t.Error(err)
		}
	})
	if won.Load() != left || refused.Load() != callers-left {
		t.Errorf("%d won and %d were refused, want %d and %d", won.Load(), refused.Load(), left, callers-left)
	}
	wantValue(ctx, t, repo, "edge", math.MaxInt64)
	wantValue(ctx, t, repo, "other", callers)
}

// deleteRace: every caller gets a value or "not found", and none is created anew.
func deleteRace(t *testing.T, repo counting.CountValueRepository) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))
	var won atomic.Int64
	var mu sync.Mutex
	var highest int64
	together(40, func(i int) {
		if i == 20 {
			if err := repo.Delete(ctx, "a"); err != nil {
				t.Error(err)
			}
			return
		}
		switch v, err := repo.Add(ctx, "a", 1); {
		case err == nil:
			won.Add(1)
			mu.Lock()
			highest = max(highest, v)
			mu.Unlock()
		case !errors.Is(err, counting.ErrNotFound):
			t.Error(err)
		}
	})
	if won.Load() != highest {
		t.Errorf("%d changes were acknowledged, the highest value was %d", won.Load(), highest)
	}
	_, err := repo.Find(ctx, "a")
	wantErr(t, err, counting.ErrNotFound)
}
