package countingtest

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// hotItem: n concurrent changes give n different consecutive values.
func hotItem(t *testing.T, repo Repo) {
	ctx := t.Context()
	const n = 100
	must[counting.CountValue](t)(repo.Create(ctx, "hot", 1000))
	got := make([]int64, n)
	waittest.Together(t, n, func(i int) (err error) {
		got[i], err = Add(ctx, repo, "hot", 1)
		return err
	})

	slices.Sort(got)
	for i, v := range got {
		if v != int64(1001+i) {
			t.Fatalf("value %d stands where %d should: answers are not consecutive", v, 1001+i)
		}
	}
	wantValue(ctx, t, repo, "hot", 1000+n)
}

// oneCreator: of several callers that create one id, exactly one wins.
func oneCreator(t *testing.T, repo Repo) {
	ctx := t.Context()
	var won atomic.Int64
	waittest.Together(t, 20, func(i int) error {
		switch _, err := repo.Create(ctx, "new", int64(i)); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, counting.ErrExists):
			return err
		}
		return nil
	})
	if won.Load() != 1 {
		t.Errorf("%d creators won, want 1", won.Load())
	}
}

// deleteRace: while a count is deleted, each caller gets a value or "not found", and nothing creates the count again.
func deleteRace(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))

	var won atomic.Int64
	var mu sync.Mutex
	var highest int64
	waittest.Together(t, 40, func(i int) error {
		if i == 20 {
			return repo.Delete(ctx, "a")
		}
		switch v, err := Add(ctx, repo, "a", 1); {
		case err == nil:
			won.Add(1)
			mu.Lock()
			highest = max(highest, v)
			mu.Unlock()
		case !errors.Is(err, counting.ErrNotFound):
			return err
		}
		return nil
	})

	if won.Load() != highest {
		t.Errorf("%d changes were acknowledged, the highest value was %d", won.Load(), highest)
	}
	_, err := repo.Find(ctx, "a")
	wantErr(t, err, counting.ErrNotFound)
}

// overflowAtTheEdge: when callers count up to the largest int64 together, the changes that fit are applied and the
// others are refused, whatever their sum; changes of other counts are applied.
func overflowAtTheEdge(t *testing.T, repo Repo) {
	ctx := t.Context()
	const left, callers = 20, 50
	must[counting.CountValue](t)(repo.Create(ctx, "edge", math.MaxInt64-left))
	must[counting.CountValue](t)(repo.Create(ctx, "other", 0))

	var won atomic.Int64
	waittest.Together(t, 2*callers, func(i int) error {
		if i%2 == 0 {
			_, err := Add(ctx, repo, "other", 1)
			return err
		}
		switch _, err := Add(ctx, repo, "edge", 1); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, counting.ErrOverflow):
			return err
		}
		return nil
	})

	if won.Load() != left {
		t.Errorf("%d changes fitted, want %d", won.Load(), left)
	}
	wantValue(ctx, t, repo, "edge", math.MaxInt64)
	wantValue(ctx, t, repo, "other", callers)
}
