package groupcommit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// TestSplit: one request keeps its group from being sent. All others are applied, in the same slots, and it gets the
// error.
func TestSplit(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	var alone atomic.Int64
	r := start(t, dsn, dsn, func(cfg *groupcommit.Config[string, request, int64]) {
		cfg.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			for _, q := range group {
				if q.key != "full" {
					continue
				}
				if len(group) == 1 {
					alone.Add(1)
				}
				return groupcommit.ErrSplit
			}
			return add(ctx, s, a, group)
		}
	})

	var refused atomic.Int64
	waittest.Together(t, 20, func(i int) error {
		key := "full"
		if i != 7 {
			key = "key-0"
		}
		_, err := r.Do(t.Context(), request{key: key})
		if errors.Is(err, groupcommit.ErrSplit) && i == 7 {
			refused.Add(1)
			return nil
		}
		return err
	})

	if n := r.value(t, "key-0"); n != 19 {
		t.Errorf("the others added %d, want 19", n)
	}
	if refused.Load() != 1 || alone.Load() != 1 {
		t.Errorf("it was refused %d times, and sent alone %d times, want 1", refused.Load(), alone.Load())
	}
	var slots int
	if err := r.direct.GetContext(t.Context(), &slots, `SELECT count(*) FROM rig.slots`); err != nil || slots != 1 {
		t.Errorf("%d slots were made (%v), want 1", slots, err)
	}
}
