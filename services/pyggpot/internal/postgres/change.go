package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

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

// changeSQL writes the pots of a group, releases their leases, and stores the answers in the group's slot, in one
// commit. It locks the slot first; where that does not hold the attempt before, the fence lets no pot pass. If the
// fence does not let all pots pass, it writes none of them, and stores $13 for the answers.
const changeSQL = `
WITH slot AS MATERIALIZED (
    SELECT id
      FROM pyggpot.slots
     WHERE` + groupcommit.LockSlotSQL + `, fenced AS MATERIALIZED (` + fenceSQL + `
), pass AS MATERIALIZED (
    SELECT cardinality($4::integer[]) - count(*) AS lost,
           extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS waited
      FROM fenced
), coins AS (
    INSERT INTO pyggpot.coin (pot_id, denomination, coin_count)
    SELECT pot_id, denomination, coin_count
      FROM unnest($9::integer[], $10::integer[], $11::integer[]) AS n (pot_id, denomination, coin_count)
     WHERE (SELECT lost FROM pass) = 0
        ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
), pots AS (
    UPDATE pyggpot.pot AS p
       SET coins = f.coins, lock = NULL, lock_expire_time = NULL
      FROM fenced AS f
     WHERE p.id = f.id
       AND (SELECT lost FROM pass) = 0
)
UPDATE pyggpot.slots AS s
   SET attempt = $2, answers = CASE pass.lost WHEN 0 THEN $12::json ELSE $13::json END, used_at = clock_timestamp()
  FROM pass
 WHERE s.id = (SELECT id FROM slot)
RETURNING s.answers, pass.lost, pass.waited`

// sendGroup decides the changes of leased pots and sends them: see groupcommit.Config.Send. If the fence lets the
// pots pass, their coins are unchanged since the lease. Otherwise no change of the group gets an answer.
func (s *Store) sendGroup(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []pot.Change,
) error {
	l := a.Lease.(*lease) //nolint:errcheck // take has made it
	w := l.decide(group)
	made, err := json.Marshal(w.answers)
	if err != nil {
		return fmt.Errorf("encode the answers: %w", err)
	}
	none, err := json.Marshal(make([]*pot.Answer, len(group)))
	if err != nil {
		return fmt.Errorf("encode the answers: %w", err)
	}

	var stored struct {
		Answers []byte  `db:"answers"`
		Lost    int64   `db:"lost"`   // pots that the fence did not let pass
		Waited  float64 `db:"waited"` // until all pots were locked, in seconds
	}
	err = session.GetContext(ctx, &stored, changeSQL, a.Slot, a.Number, sqldb.Milliseconds(a.LockWait),
		w.ids, s.number, w.totals, w.versions, w.read, w.pots, w.kinds, w.counts, made, none)
	if errors.Is(err, sql.ErrNoRows) {
		return groupcommit.ErrNoSlot
	}
	if err != nil {
		return err
	}

	a.Answers, a.Waited = stored.Answers, time.Duration(stored.Waited*float64(time.Second))
	reason := contention.Held // and changed by another holder before it was leased
	if sqldb.Age(l.asked) >= s.options.TTL {
		reason = contention.Lost
	}
	s.lock.Conflicts(reason, stored.Lost)
	return nil
}

// writes holds what a group writes.
type writes struct {
	answers []pot.Answer

	// An element for each pot: the sum of its coins, the version of its row, and its coins as they were read.
	ids            pq.Int32Array
	totals         pq.Int64Array
	versions, read pq.StringArray

	// An element for each kind of a pot that has changed.
	pots, kinds pq.Int32Array
	counts      pq.Int64Array
}

// decide decides the changes of a group.
func (l *lease) decide(group []pot.Change) (w writes) {
	before := make(map[pot.ID]pot.Pot, len(l.pots))
	for id, p := range l.pots {
		before[id] = p.Pot
	}
	after, answers := pot.Decide(before, group, pot.NewSource())

	w.ids, w.answers = pq.Int32Array{}, answers // a nil array would be NULL
	for id, contents := range after {
		w.ids, w.totals = append(w.ids, int32(id)), append(w.totals, contents.Total())
		w.versions, w.read = append(w.versions, l.pots[id].version), append(w.read, l.pots[id].contents)
		for kind, n := range contents {
			if n != before[id].Contents[kind] {
				w.pots, w.kinds = append(w.pots, int32(id)), append(w.kinds, int32(kind))
				w.counts = append(w.counts, n)
			}
		}
	}
	return w
}
