package postgres_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A group of single changes, in both passes: each key is decided by itself, and what is applied gets the values that
// one change after the other would have got. Those with a key come first.
func TestGroupOfSingleChanges(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"waits": time.Minute, "skips what is locked": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
			mustCreate(t, s, "a", "b", "locked")
			if _, err := s.Create(t.Context(), "full", math.MaxInt64); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(t.Context(), update("used", "a")); err != nil {
				t.Fatal(err)
			}
			group := []struct {
				update counting.Update
				value  int64
				err    error
			}{
				{update("1", "b"), 1, nil},
				{update("2", "a"), 2, nil},
				{update("", "a"), 4, nil},
				{update("used", "a"), 1, nil}, // which it got before
				{update("3", "absent"), 0, counting.ErrNotFound},
				{update("4", "full"), 0, counting.ErrOverflow},
				{update("5", "a"), 3, nil},
				{update("", "a"), 5, nil},
				{update("", "absent"), 0, counting.ErrNotFound},
				{update("", "full"), 0, counting.ErrOverflow},
			}
			var updates []counting.Update
			var holder apptest.Holder
			for _, g := range group {
				updates = append(updates, g.update)
			}
			if wait == 0 {
				holder = lock(t, db, "locked")
				updates = append(updates, update("6", "locked"), update("", "locked"))
			}
			got, err := s.ApplyTogether(t.Context(), wait, updates...)
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range group {
				first := got[i]
				if !errors.Is(first.Err, g.err) || first.Locked || first.Replayed != (g.update.Key.Value == "used") ||
					g.err == nil && !slices.Equal(first.Values, []int64{g.value}) {
					t.Errorf("request %d got %+v, want %d, %v", i, first, g.value, g.err)
				}
				if g.update.Key.Value == "" {
					continue
				}
				again, err := s.Apply(t.Context(), g.update)
				if !errors.Is(err, g.err) || !again.Replayed || !slices.Equal(again.Values, first.Values) {
					t.Errorf("request %d again: %+v, %v, the first got %+v", i, again, err, first)
				}
			}
			for _, a := range got[len(group):] {
				if !a.Locked || a.Err != nil {
					t.Errorf("a request of the locked count got %+v", a)
				}
			}
			wantValue(t, s, "a", 5)
			wantValue(t, s, "b", 1)
			wantValue(t, s, "locked", 0)
			if wait == 0 {
				holder.Rollback()
				later, err := s.Apply(t.Context(), update("6", "locked"))
				if err != nil || later.Replayed || !slices.Equal(later.Values, []int64{1}) {
					t.Errorf("what was locked got %+v, %v later", later, err)
				}
			}
		})
	}
}
