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

const (
	// MaxSends is how often a statement is sent that is found not to be applied.
	MaxSends = maxSends
	// ResolveSlot is the look-up of an attempt.
	ResolveSlot = resolveSlotSQL
)

// SpendSlots adds n free slots of an item's shard whose next attempts look-ups have taken.
func (s *Store) SpendSlots(ctx context.Context, item string, n int) error {
	spent := make(map[*slot]int64, n)
	for range n {
		used, shard, err := s.takeSlot(ctx, item)
		if err != nil {
			return err
		}
		var stored nullInts
		if err := s.db.GetUnqueued(ctx, &stored, resolveSlotSQL, used.item, used.id, used.attempt); err != nil {
			return err
		}
		used.attempt--
		spent[used] = shard
	}
	for used, shard := range spent {
		s.slots.push(shard, used)
	}
	return nil
}

// AgeSlots makes the free slots older.
func (s *Store) AgeSlots(by time.Duration) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	for _, free := range s.slots.free {
		for _, f := range free {
			f.made = f.made.Add(-by)
		}
	}
}
