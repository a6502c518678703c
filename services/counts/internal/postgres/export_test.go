package postgres

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Answer is what a request of a group got.
type Answer struct {
	counting.Result

	Err    error
	Locked bool
}

// ApplyTogether applies updates as one group, in a pass that waits for locks or, without a wait, skips them.
func (s *Store) ApplyTogether(ctx context.Context, wait time.Duration, updates ...counting.Update) ([]Answer, error) {
	group, apply := make([]request, len(updates)), s.applyGroup
	if s.onCitus() {
		apply = s.applyShardGroup
	}
	for i, u := range updates {
		group[i] = s.newRequest(u)
	}
	answers, err := apply(ctx, coalesce.Pass{Wait: wait, SkipLocked: wait == 0}, group)
	all := make([]Answer, len(answers))
	for i, a := range answers {
		if group[i].update == nil && a.Err == nil {
			a.Value.values = []int64{a.Value.value}
		}
		all[i] = Answer{counting.Result{Values: a.Value.values, Replayed: a.Value.replayed}, a.Err, a.Locked}
	}
	return all, err
}

// CreateForShards creates the tables that only a distributed schema has.
const CreateForShards = createSlotsSQL + "; " + createItemKeysSQL
