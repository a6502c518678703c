package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// answer is what a slot stores of a change.
type answer struct {
	Moved   pot.Contents `json:"moved,omitempty"`
	Full    bool         `json:"full,omitempty"`
	Missing bool         `json:"missing,omitempty"`
}

// Change implements pot.Repository. Callers of one pot share a lease and a commit, in which their changes follow one
// another, and callers of different pots share statements. Beyond the port's errors it returns those of groupcommit.
func (s *Store) Change(ctx context.Context, c pot.Change) (pot.Contents, error) {
	a, err := s.changes.Do(ctx, c)
	switch {
	case errors.Is(err, groupcommit.ErrLocked):
		return nil, fmt.Errorf("%w: %w", pot.ErrLocked, err)
	case errors.Is(err, groupcommit.ErrLeft):
		return nil, fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
	case err != nil:
		return nil, err
	case a.Missing:
		return nil, pot.ErrNotFound
	case a.Full:
		return nil, pot.ErrFull
	}
	return a.Moved, nil
}

// fencedPot is a row of fenceSQL.
type fencedPot struct {
	row

	Waited float64 `db:"waited"` // until all pots were locked, in seconds
}

// sendGroup sends the changes of leased pots: see groupcommit.Config.Send.
func (s *Store) sendGroup(ctx context.Context, tx groupcommit.Session, a *groupcommit.Attempt, group []pot.Change) error {
	ids := idsOf(group)
	var rows []fencedPot
	idle := sqldb.Milliseconds(min(s.options.TTL, maxIdle))
	err := tx.SelectContext(ctx, &rows, fenceSQL, ids, a.Lease, sqldb.Milliseconds(a.LockWait), idle)
	if err != nil {
		return err
	}
	before := make(map[pot.ID]pot.Pot, len(rows))
	for _, r := range rows {
		before[pot.ID(r.ID)] = r.domain()
		a.Waited = max(a.Waited, time.Duration(r.Waited*float64(time.Second)))
	}

	after, decided := pot.Decide(before, group, pot.NewSource())
	answers := make([]*answer, len(group))
	for i, d := range decided {
		if d != nil {
			answers[i] = &answer{Moved: d.Moved, Full: d.Full}
		}
	}
	if len(rows) < len(ids) {
		if err := s.answerMissing(ctx, tx, ids, group, before, answers); err != nil {
			return err
		}
	}

	return write(ctx, tx, a, before, after, answers)
}

// answerMissing answers the changes of pots that are not there. The other pots without an answer have lost their lease.
func (s *Store) answerMissing(
	ctx context.Context, tx groupcommit.Session, ids pq.Int32Array, group []pot.Change, fenced map[pot.ID]pot.Pot,
	answers []*answer,
) error {
	var there []int32
	if err := tx.SelectContext(ctx, &there, `SELECT id FROM pyggpot.pot WHERE id = ANY($1::integer[])`, ids); err != nil {
		return err
	}
	for i, c := range group {
		if answers[i] == nil && !slices.Contains(there, int32(c.Pot)) {
			answers[i] = &answer{Missing: true}
		}
	}
	s.lock.Conflicts(contention.Lost, int64(len(there)-len(fenced)))
	return nil
}

// writeSQL writes the kinds that have changed and the sum of all, releases the leases, and stores the answers in the
// slot.
const writeSQL = `
WITH coins AS (
    INSERT INTO pyggpot.coin (pot_id, denomination, coin_count)
    SELECT pot_id, denomination, coin_count
      FROM unnest($3::integer[], $4::integer[], $5::integer[]) AS n (pot_id, denomination, coin_count)
        ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
), pots AS (
    UPDATE pyggpot.pot AS p
       SET coins = n.coins, lock = NULL, lock_expire_time = NULL
      FROM unnest($1::integer[], $2::integer[]) AS n (id, coins)
     WHERE p.id = n.id
)
UPDATE pyggpot.slots
   SET attempt = $7, answers = $8, used_at = clock_timestamp()
 WHERE id = $6 AND attempt = $7 - 1`

// write sends writeSQL for the fenced pots.
func write(
	ctx context.Context, tx groupcommit.Session, a *groupcommit.Attempt, before map[pot.ID]pot.Pot,
	after map[pot.ID]pot.Contents, answers []*answer,
) error {
	var ids, pots, kinds pq.Int32Array
	var totals, counts pq.Int64Array
	for id, contents := range after {
		ids, totals = append(ids, int32(id)), append(totals, contents.Total())
		for kind, n := range contents {
			if n != before[id].Contents[kind] {
				pots, kinds, counts = append(pots, int32(id)), append(kinds, int32(kind)), append(counts, n)
			}
		}
	}

	var err error
	if a.Answers, err = json.Marshal(answers); err != nil {
		return fmt.Errorf("encode the answers: %w", err)
	}
	result, err := tx.ExecContext(ctx, writeSQL, ids, totals, pots, kinds, counts, a.Slot, a.Number, a.Answers)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(groupcommit.ErrNoSlot, err)
	}
	return nil
}

// idsOf returns the pots of a group, each once.
func idsOf(group []pot.Change) pq.Int32Array {
	ids := make(pq.Int32Array, len(group))
	for i, c := range group {
		ids[i] = int32(c.Pot)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
