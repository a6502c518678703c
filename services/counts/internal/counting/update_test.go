package counting_test

import (
	"errors"
	"math"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func TestChangeRules(t *testing.T) {
	t.Parallel()
	for amount, ok := range map[int64]bool{
		1: true, -1: true, math.MaxInt64: true, math.MinInt64 + 1: true, 0: false, math.MinInt64: false,
	} {
		if c, err := counting.NewChange("a", amount); (err == nil) != ok || ok && (c.ItemID != "a" || c.Delta != amount) ||
			!ok && !errors.Is(err, counting.ErrInvalidAmount) {
			t.Errorf("%d: got %+v, %v", amount, c, err)
		}
	}
	if _, err := counting.NewChange("", 1); !errors.Is(err, counting.ErrInvalidItemID) {
		t.Errorf("no id: %v", err)
	}
}

func TestApplyBounds(t *testing.T) {
	t.Parallel()
	repo := countingtest.NewMemory()
	s := counting.NewService(repo, new(countingtest.Observed))
	if _, err := s.Initialize(t.Context(), counting.Key{}, "a", 0); err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{0: false, 1: true, counting.MaxChanges: true, counting.MaxChanges + 1: false} {
		changes := make([]counting.Change, n)
		for i := range changes {
			changes[i] = counting.Change{ItemID: "a", Delta: 1}
		}
		got, err := s.Apply(t.Context(), counting.Update{Changes: changes})
		if ok && (err != nil || len(got.Values) != n) || !ok && !errors.Is(err, counting.ErrTooManyChanges) {
			t.Errorf("%d changes: %d values, %v", n, len(got.Values), err)
		}
	}
}

// The error of a batch of one names its change, as that of a longer one does.
func TestApplyNamesTheChange(t *testing.T) {
	t.Parallel()
	repo := countingtest.NewMemory()
	s := counting.NewService(repo, new(countingtest.Observed))
	for _, id := range []counting.ItemID{"a", "b"} {
		if _, err := s.Initialize(t.Context(), counting.Key{}, id, math.MinInt64); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		changes []counting.Change
		index   int
		err     error
	}{
		"absent":        {[]counting.Change{{ItemID: "x", Delta: 1}}, 0, counting.ErrNotFound},
		"overflow":      {[]counting.Change{{ItemID: "a", Delta: -1}}, 0, counting.ErrOverflow},
		"second absent": {[]counting.Change{{ItemID: "a", Delta: 1}, {ItemID: "x", Delta: 1}}, 1, counting.ErrNotFound},
	} {
		_, err := s.Apply(t.Context(), counting.Update{Changes: tc.changes})
		if c, ok := errors.AsType[*counting.ChangeError](err); !ok || c.Index != tc.index || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want change %d: %v", name, err, tc.index, tc.err)
		}
	}
}

// A page says whether there are more, and has 1 to MaxPageSize counts.
func TestPageBounds(t *testing.T) {
	t.Parallel()
	s := counting.NewService(countingtest.NewMemory(), new(countingtest.Observed))
	for _, id := range []counting.ItemID{"a", "b", "c"} {
		if _, err := s.Initialize(t.Context(), counting.Key{}, id, 0); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]struct {
		n    int
		more bool
	}{1: {1, true}, 2: {2, true}, 3: {3, false}, 4: {3, false}, counting.MaxPageSize: {3, false}} {
		page, more, err := s.Page(t.Context(), "", "", limit)
		if err != nil || len(page) != want.n || more != want.more {
			t.Errorf("limit %d: %d counts, more %t, %v", limit, len(page), more, err)
		}
	}
	for _, limit := range []int{0, -1, counting.MaxPageSize + 1} {
		if _, _, err := s.Page(t.Context(), "", "", limit); !errors.Is(err, counting.ErrInvalidLimit) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// Two requests are one when their operations, items and amounts are, however they were written.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	type service = *counting.Service
	ctx := t.Context()
	requests := map[string]func(s service, key counting.Key) error{
		"increase a by 1": func(s service, k counting.Key) error { _, err := s.Increase(ctx, k, "a", 1); return err },
		"increase a by 2": func(s service, k counting.Key) error { _, err := s.Increase(ctx, k, "a", 2); return err },
		"increase b by 1": func(s service, k counting.Key) error { _, err := s.Increase(ctx, k, "b", 1); return err },
		"decrease a by 1": func(s service, k counting.Key) error { _, err := s.Decrease(ctx, k, "a", 1); return err },
		"reset a":         func(s service, k counting.Key) error { _, err := s.Reset(ctx, k, "a"); return err },
		"set a to 0":      func(s service, k counting.Key) error { _, err := s.Set(ctx, k, "a", 0); return err },
		"set a to 1":      func(s service, k counting.Key) error { _, err := s.Set(ctx, k, "a", 1); return err },
	}
	for name, update := range map[string]counting.Update{
		"a 1":        {Changes: []counting.Change{{ItemID: "a", Delta: 1}}},
		"a 1, b 2":   {Changes: []counting.Change{{ItemID: "a", Delta: 1}, {ItemID: "b", Delta: 2}}},
		"b 2, a 1":   {Changes: []counting.Change{{ItemID: "b", Delta: 2}, {ItemID: "a", Delta: 1}}},
		"a 1, a 1":   {Changes: []counting.Change{{ItemID: "a", Delta: 1}, {ItemID: "a", Delta: 1}}},
		"a 11":       {Changes: []counting.Change{{ItemID: "a", Delta: 11}}},
		"a1 1":       {Changes: []counting.Change{{ItemID: "a1", Delta: 1}}},
		"create a 1": {Changes: []counting.Change{{ItemID: "a", Delta: 1}}, Create: true},
	} {
		requests["apply "+name] = func(s service, k counting.Key) error {
			update.Key = k
			_, err := s.Apply(ctx, update)
			return err
		}
	}
	for first, send := range requests {
		for second, repeat := range requests {
			repo, seen := countingtest.NewMemory(), new(countingtest.Observed)
			s := counting.NewService(repo, seen)
			for _, id := range []counting.ItemID{"a", "b", "a1"} {
				if _, err := s.Initialize(ctx, counting.Key{}, id, 0); err != nil {
					t.Fatal(err)
				}
			}
			key := counting.Key{Value: "k"}
			err := send(s, key)
			again := repeat(s, key)
			if same := first == second; err != nil || same && again != nil ||
				!same && !errors.Is(again, counting.ErrKeyConflict) ||
				seen.Replays.Load() != oneIf(same) || seen.Conflicts.Load() != oneIf(!same) {
				t.Errorf("%s, then %s: %v, %v, %d replays, %d conflicts",
					first, second, err, again, seen.Replays.Load(), seen.Conflicts.Load())
			}
		}
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
