// Mutant of services/counts/internal/postgres/replay.go: a replay answers the current value.

package postgres

import (
	"context"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// replay answers the requests whose keys were taken, and their repeats in the group, by what is stored, or by the error
// of reading that. A key that has expired meanwhile is tried again.
func (s *Store) replay(ctx context.Context, g *updateGroup) {
	if len(g.losers) == 0 {
		return
	}

	var indexes []int
	var items []string
	var keys []counting.Key
	var steps []int64
	owns := make(map[int]uuid.UUID)
	for _, p := range g.losers {
		l := g.leaders[p.lane()]
		owns[l.index] = l.own
		for _, i := range append([]int{l.index}, l.repeats...) {
			indexes = append(indexes, i)
			items = append(items, g.group[i].id)
			keys = append(keys, g.group[i].update.Key)
			steps = append(steps, int64(len(g.group[i].update.steps)))
		}
	}

	found, err := s.lookUp(ctx, items, keys, steps)
	for n, i := range indexes {
		if err != nil {
			g.answers[i].Err = err
			continue
		}

		g.answers[i] = s.replayed(ctx, g.group[i].update, found[n])
		// The answer of this request's own statement was lost.
		if found[n] != nil && found[n].GroupID == owns[i] {
			g.answers[i].Value.replayed = false
		}
	}
}

// replayed returns the answer of a request whose key was taken with a first answer, or without one when it has expired
// since.
func (s *Store) replayed(ctx context.Context, u *update, first *stored) coalesce.Answer[reply] {
	if first == nil || !first.conflicts(u.Key) && !first.complete(len(u.steps)) {
		return coalesce.Answer[reply]{Locked: true, At: len(u.locks) - 1}
	}
	if first.conflicts(u.Key) {
		return coalesce.Answer[reply]{Err: counting.ErrKeyConflict}
	}

	answer := coalesce.Answer[reply]{Value: reply{replayed: true}}
	if err := first.refusal(); err != nil {
		answer.Err = u.refused(first.RefusedAt, err)
		return answer
	}

	starts := make([]int64, len(first.Starts))
	for i, step := range u.steps {
		count, err := s.Find(ctx, counting.ItemID(step.id)) // as it is now
		if err != nil {
			return coalesce.Answer[reply]{Err: err}
		}
		starts[i] = count.Current - step.delta
	}
	answer.Value.values = u.values(starts)
	return answer
}

// answerRepeats answers the repeats, within the group, of keys that a request of the group has taken.
func (g *updateGroup) answerRepeats() {
	for _, l := range g.leaders {
		if l.lost {
			continue
		}
		first := g.group[l.index].update.Key
		answer := g.answers[l.index]
		for _, i := range l.repeats {
			u := g.group[i].update
			outcome, ours := sqldb.OutcomeOf(answer.Err)
			switch {
			case answer.Locked, ours && outcome == sqldb.NotApplied:
				g.answers[i] = coalesce.Answer[reply]{Locked: true, At: len(u.locks) - 1}
			case ours:
				g.answers[i].Err = answer.Err
			case u.Key.Fingerprint != first.Fingerprint:
				g.answers[i].Err = counting.ErrKeyConflict
			default:
				g.answers[i] = answer
				g.answers[i].Value.replayed = true
			}
		}
	}
}
