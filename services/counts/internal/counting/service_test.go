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
	for n, ok := range map[int64]bool{1: true, math.MaxInt64: true, 0: false, -1: false, math.MinInt64: false} {
		if a, err := counting.NewAmount(n); (err == nil) != ok || ok && int64(a) != n ||
			!ok && !errors.Is(err, counting.ErrInvalidAmount) {
			t.Errorf("%d: got %d, %v", n, a, err)
		}
	}
}

//nolint:gochecknoglobals // a constant that Go cannot spell
var noKey = counting.Key{}

func value(r counting.Result) int64 { return r.Values[0] }

// The port tests drive the inbound ports alone.
func TestPortsOnMemory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := counting.NewService(countingtest.NewMemory(), new(countingtest.Observed))
	var external counting.ExternalCountUpdateAPI = s
	var internal counting.InternalCountValueAPI = s

	for _, id := range []counting.ItemID{"a", "b"} {
		if v, _, err := internal.Initialize(ctx, noKey, id, 5); err != nil || v.Current != 5 || v.ItemID != id {
			t.Fatalf("initialize: %+v, %v", v, err)
		}
	}
	if v, err := external.Increase(ctx, noKey, "a", 3); value(v) != 8 || err != nil {
		t.Errorf("increase: %v, %v", v, err)
	}
	if v, err := external.Decrease(ctx, noKey, "a", 10); value(v) != -2 || err != nil {
		t.Errorf("decrease: %v, %v", v, err)
	}
	if _, err := external.Decrease(ctx, noKey, "a", math.MaxInt64); !errors.Is(err, counting.ErrOverflow) {
		t.Errorf("decrease beyond the edge: %v", err)
	}
	if v, err := internal.Get(ctx, "a"); v.Current != -2 || err != nil {
		t.Errorf("get: %+v, %v", v, err)
	}
	if v, err := external.Reset(ctx, noKey, "a"); value(v) != 0 || err != nil {
		t.Errorf("reset: %v, %v", v, err)
	}
	if v, _, err := internal.Set(ctx, noKey, "a", 42); v.Current != 42 || err != nil {
		t.Errorf("set: %+v, %v", v, err)
	}
	got, err := internal.GetMany(ctx, []counting.ItemID{"b", "absent", "a", "b"})
	if err != nil || len(got) != 2 || got[0].ItemID != "b" || got[1].ItemID != "a" {
		t.Errorf("get many: %+v, %v; want b, a in the order asked, each once", got, err)
	}
	if _, err := internal.Delete(ctx, noKey, "a"); err != nil {
		t.Error(err)
	}
	if _, err := internal.Get(ctx, "a"); !errors.Is(err, counting.ErrNotFound) {
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

// A failure of the repository reaches the caller of each port unchanged.
func TestPortsReturnFailures(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boom := errors.New("the disk is on fire")
	s := counting.NewService(countingtest.Failing{Err: boom}, new(countingtest.Observed))
	for name, call := range map[string]func() error{
		"Increase":   func() error { _, err := s.Increase(ctx, noKey, "a", 1); return err },
		"Decrease":   func() error { _, err := s.Decrease(ctx, noKey, "a", 1); return err },
		"Reset":      func() error { _, err := s.Reset(ctx, noKey, "a"); return err },
		"Initialize": func() error { _, _, err := s.Initialize(ctx, counting.Key{}, "a", 1); return err },
		"Get":        func() error { _, err := s.Get(ctx, "a"); return err },
		"GetMany":    func() error { _, err := s.GetMany(ctx, []counting.ItemID{"a"}); return err },
		"Set":        func() error { _, _, err := s.Set(ctx, noKey, "a", 1); return err },
		"Apply": func() error {
			_, err := s.Apply(ctx, counting.Update{Changes: []counting.Change{{ItemID: "a", Delta: 1}}})
			return err
		},
		"Page":   func() error { _, _, err := s.Page(ctx, "", "", 1); return err },
		"Delete": func() error { _, err := s.Delete(ctx, noKey, "a"); return err },
	} {
		if err := call(); !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
