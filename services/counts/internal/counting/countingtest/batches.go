package countingtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// by is a change in the lists of the tests.
type by struct {
	id    counting.ItemID
	delta int64
}

func changes(list ...by) []counting.Change {
	out := make([]counting.Change, len(list))
	for i, c := range list {
		out[i] = counting.Change{ItemID: c.id, Delta: c.delta}
	}
	return out
}

// batch: the changes are applied one by one, and each value is right after its change.
func batch(t *testing.T, repo Repo) {
	ctx := t.Context()
	for id, initial := range map[counting.ItemID]int64{"a": 10, "b": 20, "c": 30} {
		must[counting.CountValue](t)(repo.Create(ctx, id, initial))
	}

	list := changes(by{"b", 5}, by{"a", 1}, by{"b", -25}, by{"c", -1}, by{"a", 100}, by{"b", 1})
	got := must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: list}))
	if want := []int64{25, 11, 0, 29, 111, 1}; !slices.Equal(got.Values, want) || got.Replayed {
		t.Errorf("got %+v, want %v", got, want)
	}
	for id, want := range map[counting.ItemID]int64{"a": 111, "b": 1, "c": 29} {
		wantValue(ctx, t, repo, id, want)
	}

	must[counting.CountValue](t)(repo.Create(ctx, "low", math.MinInt64))
	list = changes(
		by{"low", math.MaxInt64}, by{"a", -1}, by{"low", math.MaxInt64}, by{"low", 1}, by{"low", -math.MaxInt64})
	got = must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: list}))
	if want := []int64{-1, 110, math.MaxInt64 - 1, math.MaxInt64, 0}; !slices.Equal(got.Values, want) {
		t.Errorf("sums beyond int64: got %+v, want %v", got, want)
	}

	many := make([]counting.Change, counting.MaxChanges)
	for i := range many {
		many[i] = counting.Change{ItemID: "c", Delta: 1}
	}
	got = must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: many}))
	for i, v := range got.Values {
		if v != int64(30+i) {
			t.Fatalf("value %d of many changes of one count is %d, want %d", i, v, 30+i)
		}
	}
}

// batchCreates: missing counts start at 0, others keep their value.
func batchCreates(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "old", 10))

	list := changes(by{"new", 2}, by{"old", 1}, by{"new", 3}, by{"'; DROP TABLE counts.count_values; --", -1})
	got := must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: list, CreateMissing: true}))
	if want := []int64{2, 11, 5, -1}; !slices.Equal(got.Values, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	wantValue(ctx, t, repo, "new", 5)

	got = must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: list, CreateMissing: true}))
	if want := []int64{7, 12, 10, -2}; !slices.Equal(got.Values, want) {
		t.Errorf("with nothing left to create: got %+v, want %v", got, want)
	}

	list = changes(by{"single", 4})
	one := must[counting.Answer](t)(repo.Change(ctx, counting.Request{Changes: list, CreateMissing: true}))
	if !slices.Equal(one.Values, []int64{4}) {
		t.Errorf("one change: got %+v, want 4", one)
	}
}

// refusedBatches: the error names the change, and nothing is applied or created.
func refusedBatches(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 1))
	must[counting.CountValue](t)(repo.Create(ctx, "high", math.MaxInt64-1))
	must[counting.CountValue](t)(repo.Create(ctx, "low", math.MinInt64+1))
	before := must[counting.CountValue](t)(repo.Find(ctx, "a"))

	for name, tc := range map[string]struct {
		list   []counting.Change
		create bool
		index  int
		err    error
	}{
		"absent": {changes(by{"a", 1}, by{"x", 1}, by{"y", 1}), false, 1, counting.ErrNotFound},
		"the sum fits nowhere": {
			changes(by{"low", math.MaxInt64}, by{"low", math.MaxInt64}, by{"low", math.MaxInt64}),
			false, 2, counting.ErrOverflow,
		},
		"absent twice":                 {changes(by{"x", 1}, by{"x", 1}), false, 0, counting.ErrNotFound},
		"over the edge":                {changes(by{"a", 1}, by{"high", 1}, by{"high", 1}), false, 2, counting.ErrOverflow},
		"below the edge":               {changes(by{"low", -2}, by{"a", 1}), false, 0, counting.ErrOverflow},
		"over the edge and back":       {changes(by{"a", 1}, by{"high", 2}, by{"high", -2}), false, 1, counting.ErrOverflow},
		"absent goes before overflow":  {changes(by{"high", 2}, by{"x", 1}), false, 1, counting.ErrNotFound},
		"overflow of one that is made": {changes(by{"x", math.MaxInt64}, by{"x", 1}), true, 1, counting.ErrOverflow},
		"overflow beside one to make":  {changes(by{"x", 1}, by{"high", 2}), true, 1, counting.ErrOverflow},
	} {
		got, err := repo.Change(ctx, counting.Request{Changes: tc.list, CreateMissing: tc.create})
		if got.Index != tc.index || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %+v, %v, want change %d: %v", name, got, err, tc.index, tc.err)
		}
		if errors.Is(tc.err, counting.ErrOverflow) {
			wantValue(ctx, t, repo, "high", math.MaxInt64-1)
		}
	}

	if after := must[counting.CountValue](t)(repo.Find(ctx, "a")); after != before {
		t.Errorf("refused batches made %+v of %+v", after, before)
	}
	_, err := repo.Find(ctx, "x")
	wantErr(t, err, counting.ErrNotFound)
}
