package counting_test

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

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
	for name, update := range map[string]counting.Request{
		"a 1":        {Changes: []counting.Change{{ItemID: "a", Delta: 1}}},
		"a 1, b 2":   {Changes: []counting.Change{{ItemID: "a", Delta: 1}, {ItemID: "b", Delta: 2}}},
		"b 2, a 1":   {Changes: []counting.Change{{ItemID: "b", Delta: 2}, {ItemID: "a", Delta: 1}}},
		"a 1, a 1":   {Changes: []counting.Change{{ItemID: "a", Delta: 1}, {ItemID: "a", Delta: 1}}},
		"a 11":       {Changes: []counting.Change{{ItemID: "a", Delta: 11}}},
		"a1 1":       {Changes: []counting.Change{{ItemID: "a1", Delta: 1}}},
		"create a 1": {Changes: []counting.Change{{ItemID: "a", Delta: 1}}, CreateMissing: true},
	} {
		requests["apply "+name] = func(s service, k counting.Key) error {
			update.Key = k
			_, err := s.Apply(ctx, update)
			return err
		}
	}
	for first, send := range requests {
		for second, repeat := range requests {
			replays, conflicts := 0, 0
			s := &counting.Service{
				Repository: countingtest.NewMemory(),
				Replayed:   func() { replays++ }, Conflict: func() { conflicts++ },
			}
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
				replays != oneIf(same) || conflicts != oneIf(!same) {
				t.Errorf("%s, then %s: %v, %v, %d replays, %d conflicts", first, second, err, again, replays, conflicts)
			}
		}
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
