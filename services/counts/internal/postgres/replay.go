package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The refusals as the table of keys stores them.
const (
	refusedNotFound = "not_found"
	refusedOverflow = "overflow"
)

// storedSQL returns the first answers to requests with keys: what the journal has from the request's place on. A
// caller's own row comes first, then one that was taken without a caller; without a caller it is anyone's.
const storedSQL = `/* SELECT counts.idempotency_keys */
SELECT a.n, k.fingerprint, k.group_id, k.refusal, coalesce(k.refused_at, 0) AS refused_at,
       j.results[k.position + 1 : k.position + a.steps] AS starts
  FROM unnest($1::text[], $2::text[], $3::int[]) WITH ORDINALITY AS a (caller, key, steps, n)
 CROSS JOIN LATERAL (
     SELECT k.fingerprint, k.group_id, k.position, k.refusal, k.refused_at
       FROM counts.idempotency_keys k
      WHERE k.caller IN (a.caller, '') AND k.key = a.key AND k.expires_at > clock_timestamp()
        AND (k.caller = a.caller OR k.owner IN (a.caller, ''))
      ORDER BY k.caller DESC
      LIMIT 1
 ) AS k
  LEFT JOIN counts.journal j ON j.id = k.group_id`

// stored is the first answer to a request with a key.
type stored struct {
	N           int       `db:"n"`
	Fingerprint []byte    `db:"fingerprint"`
	GroupID     uuid.UUID `db:"group_id"`
	Refusal     *string   `db:"refusal"`
	RefusedAt   int       `db:"refused_at"`
	Starts      nullInts  `db:"starts"`
}

// conflicts reports whether the key was used for another request.
func (f *stored) conflicts(k counting.Key) bool {
	return !bytes.Equal(f.Fingerprint, k.Fingerprint[:])
}

// refusal returns the error that the first request got, or nil.
func (f *stored) refusal() error {
	switch {
	case f.Refusal == nil:
		return nil
	case *f.Refusal == refusedNotFound:
		return counting.ErrNotFound
	case *f.Refusal == refusedOverflow:
		return counting.ErrOverflow
	}
	return fmt.Errorf("counts: a key is stored with the refusal %q", *f.Refusal)
}

// complete reports whether the answer is there: the journal keeps it for longer than the key.
func (f *stored) complete(steps int) bool {
	if f.Refusal != nil {
		return true
	}
	for _, s := range f.Starts {
		if !s.valid {
			return false
		}
	}
	return len(f.Starts) == steps
}

// lookUp reads the first answers to requests whose keys are taken, each known by its place; items are what they change
// first. It is a statement after the one that found them taken, whose snapshot may be older than they.
func (s *Store) lookUp(
	ctx context.Context, items []string, keys []counting.Key, steps []int64,
) (map[int]*stored, error) {
	callers, values := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		callers[i], values[i] = k.Caller, k.Value
	}
	var rows []stored
	var err error
	if s.onCitus() {
		err = s.db.SelectUnqueued(ctx, &rows, storedOnShardSQL, pq.StringArray(items), pq.StringArray(callers),
			pq.StringArray(values))
	} else {
		err = s.db.SelectUnqueued(ctx, &rows, storedSQL, pq.StringArray(callers), pq.StringArray(values),
			pq.Int64Array(steps))
	}
	if err != nil {
		return nil, err
	}
	found := make(map[int]*stored, len(rows))
	for i := range rows {
		found[rows[i].N-1] = &rows[i]
	}
	return found, nil
}

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
	starts, err := s.firstStarts(ctx, u, first.Starts)
	if err != nil {
		return coalesce.Answer[reply]{Err: err}
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
