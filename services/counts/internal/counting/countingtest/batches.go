package countingtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
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
	got := must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: list}))
	if want := []int64{25, 11, 0, 29, 111, 1}; !slices.Equal(got.Values, want) || got.Replayed {
		t.Errorf("got %+v, want %v", got, want)
	}
	for id, want := range map[counting.ItemID]int64{"a": 111, "b": 1, "c": 29} {
		wantValue(ctx, t, repo, id, want)
	}

	must[counting.CountValue](t)(repo.Create(ctx, "low", math.MinInt64))
	list = changes(
		by{"low", math.MaxInt64}, by{"a", -1}, by{"low", math.MaxInt64}, by{"low", 1}, by{"low", -math.MaxInt64})
	got = must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: list}))
	if want := []int64{-1, 110, math.MaxInt64 - 1, math.MaxInt64, 0}; !slices.Equal(got.Values, want) {
		t.Errorf("sums beyond int64: got %+v, want %v", got, want)
	}

	many := make([]counting.Change, counting.MaxChanges)
	for i := range many {
		many[i] = counting.Change{ItemID: "c", Delta: 1}
	}
	got = must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: many}))
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
	got := must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: list, Create: true}))
	if want := []int64{2, 11, 5, -1}; !slices.Equal(got.Values, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	wantValue(ctx, t, repo, "new", 5)

	got = must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: list, Create: true}))
	if want := []int64{7, 12, 10, -2}; !slices.Equal(got.Values, want) {
		t.Errorf("with nothing left to create: got %+v, want %v", got, want)
	}

	one := must[counting.Answer](t)(repo.Apply(ctx, counting.Update{Changes: changes(by{"single", 4}), Create: true}))
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
		_, err := repo.Apply(ctx, counting.Update{Changes: tc.list, Create: tc.create})
		wantRefused(t, name, err, tc.index, tc.err)
		if errors.Is(tc.err, counting.ErrOverflow) {
			wantValue(ctx, t, repo, "high", math.MaxInt64-1)
		}
	}

	if after := must[counting.CountValue](t)(repo.Find(ctx, "a")); after != before {
		t.Errorf("refused batches made %+v of %+v", after, before)
	}
	_, err := repo.Find(ctx, "x")
	wantErr(t, err, counting.ErrNotFound)

	_, err = repo.Apply(ctx, counting.Update{Changes: changes(by{"x", 1})})
	wantErr(t, err, counting.ErrNotFound)
	if _, ok := errors.AsType[*counting.ChangeError](err); ok {
		t.Errorf("one change: the error %v names it", err)
	}
}

func wantRefused(t *testing.T, name string, err error, index int, want error) {
	t.Helper()
	if change, ok := errors.AsType[*counting.ChangeError](err); !ok || change.Index != index || !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want change %d: %v", name, err, index, want)
	}
}

// batchesCross: batches that name the same counts in different orders, and single changes of them, all end, and the
// sums are right.
func batchesCross(t *testing.T, repo Repo) {
	ctx := t.Context()
	const callers = 60
	for _, id := range []counting.ItemID{"a", "b", "c"} {
		must[counting.CountValue](t)(repo.Create(ctx, id, 0))
	}

	lists := [][]counting.Change{
		changes(by{"a", 2}, by{"b", -2}),
		changes(by{"b", 3}, by{"a", -3}),
		changes(by{"c", 5}, by{"a", -5}, by{"b", 4}, by{"c", -4}),
		changes(by{"b", 1}),
	}
	waittest.Together(t, callers, func(i int) error {
		_, err := repo.Apply(ctx, counting.Update{Changes: lists[i%len(lists)]})
		return err
	})

	const each = callers / 4
	wantValue(ctx, t, repo, "a", (2-3-5)*each)
	wantValue(ctx, t, repo, "b", (-2+3+4+1)*each)
	wantValue(ctx, t, repo, "c", (5-4)*each)
}

// batchesAreWhole: of concurrent batches on one count, each gets a consecutive run of values.
func batchesAreWhole(t *testing.T, repo Repo) {
	ctx := t.Context()
	const callers, size = 40, 5
	must[counting.CountValue](t)(repo.Create(ctx, "hot", 0))

	list := changes(by{"hot", 1}, by{"hot", 1}, by{"hot", 1}, by{"hot", 1}, by{"hot", 1})
	starts := make([]int64, callers)
	waittest.Together(t, callers, func(i int) error {
		got, err := repo.Apply(ctx, counting.Update{Changes: list})
		if err != nil {
			return err
		}
		starts[i] = got.Values[0]
		for j, v := range got.Values {
			if v != starts[i]+int64(j) {
				t.Errorf("a batch got %v", got.Values)
			}
		}
		return nil
	})

	slices.Sort(starts)
	for i, v := range starts {
		if v != int64(1+i*size) {
			t.Fatalf("a batch begins at %d where %d should: batches are mixed", v, 1+i*size)
		}
	}
}

// batchesCreateTogether: concurrent batches that create the same counts are all applied.
func batchesCreateTogether(t *testing.T, repo Repo) {
	ctx := t.Context()
	const callers = 20
	waittest.Together(t, callers, func(i int) error {
		list := changes(by{"x", 1}, by{"y", 2})
		if i%2 == 0 {
			slices.Reverse(list)
		}
		_, err := repo.Apply(ctx, counting.Update{Changes: list, Create: true})
		return err
	})
	wantValue(ctx, t, repo, "x", callers)
	wantValue(ctx, t, repo, "y", 2*callers)
}
