package counting_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	open := func(*testing.T) counting.CountValueRepository { return countingtest.NewMemory() }
	countingtest.Exercise(t, open)
}

func TestItemIDRules(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{
		"": false, "a": true, " ": true, "a/b": true, "🦀": true, "e\u0301": true, "\u202e": true,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false, strings.Repeat("é", 128): false,
		"\x00": false, "a\x00b": false, "\n": false, "\t": false, "\x7f": false, "\u0085": false, "\xff": false,
	} {
		id, err := counting.NewItemID(s)
		switch {
		case ok && (err != nil || string(id) != s):
			t.Errorf("%q: got %q, %v", s, id, err)
		case !ok && !errors.Is(err, counting.ErrInvalidItemID):
			t.Errorf("%q: got %v, want ErrInvalidItemID", s, err)
		case !ok && s != "" && len(s) > 3 && strings.Contains(err.Error(), s):
			t.Errorf("%q is repeated in its error", s)
		}
	}
}

func TestAmountRules(t *testing.T) {
	t.Parallel()
	s := counting.NewService(countingtest.NewMemory(), new(countingtest.Observed))
	if _, err := s.Initialize(t.Context(), noKey, "a", 0); err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int64]bool{1: true, math.MaxInt64 - 1: true, 0: false, -1: false, math.MinInt64: false} {
		_, increase := s.Increase(t.Context(), noKey, "a", n)
		_, decrease := s.Decrease(t.Context(), noKey, "a", n)
		for _, err := range []error{increase, decrease} {
			if (err == nil) != ok || !ok && !errors.Is(err, counting.ErrInvalidAmount) {
				t.Errorf("%d: %v", n, err)
			}
		}
	}
}

var noKey = counting.Key{}

func TestService(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := counting.NewService(countingtest.NewMemory(), new(countingtest.Observed))
	want := func(what string, value int64) func(counting.Answer, error) {
		return func(a counting.Answer, err error) {
			t.Helper()
			if err != nil || a.Values[0] != value {
				t.Errorf("%s: %+v, %v; want %d", what, a, err, value)
			}
		}
	}

	want("initialize", 5)(s.Initialize(ctx, noKey, "a", 5))
	want("initialize", 5)(s.Initialize(ctx, noKey, "b", 5))
	want("increase", 8)(s.Increase(ctx, noKey, "a", 3))
	want("decrease", -2)(s.Decrease(ctx, noKey, "a", 10))
	want("reset", 0)(s.Reset(ctx, noKey, "a"))
	want("set", 42)(s.Set(ctx, noKey, "a", 42))
	got, err := s.GetMany(ctx, []counting.ItemID{"b", "absent", "a", "b"})
	if err != nil || len(got) != 2 || got[0].ItemID != "b" || got[1].ItemID != "a" {
		t.Errorf("get many: %+v, %v; want b, a in the order asked, each once", got, err)
	}
	if _, err := s.Delete(ctx, noKey, "a"); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, "a"); !errors.Is(err, counting.ErrNotFound) {
		t.Errorf("get after delete: %v", err)
	}
}

func TestGetManyBounds(t *testing.T) {
	t.Parallel()
	s := counting.NewService(countingtest.NewMemory(), new(countingtest.Observed))
	const most = counting.MaxItemsPerRead
	for n, ok := range map[int]bool{0: false, 1: true, most: true, most + 1: false} {
		ids := make([]counting.ItemID, n)
		for i := range ids {
			ids[i] = counting.ItemID(strconv.Itoa(i))
		}
		if _, err := s.GetMany(t.Context(), ids); (err == nil) != ok || !ok && !errors.Is(err, counting.ErrTooManyItems) {
			t.Errorf("%d ids: %v", n, err)
		}
	}
}
