package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The statements below set lock_timeout for themselves, in a sub-select that
// the planner evaluates before it touches a row (a one-time filter). It saves the
// round trip of a SET LOCAL, and works behind a transaction pooler.

// "waited" is the time from the statement's begin until a row was locked and changed,
// in seconds, by the server's clock: it holds no commit and no network. RETURNING asks
// the clock after the wait, which what SET computes need not: that is only computed
// again when whoever held the row has changed it.

// addOneSQL changes one count. No row means that it is absent or would
// overflow; addGroupSQL then tells which.
const addOneSQL = `
UPDATE counts.count_values
   SET current_value = current_value + $2, last_updated_at = clock_timestamp()
 WHERE item_id = $1
   AND current_value BETWEEN $3 AND $4
   AND (SELECT set_config('lock_timeout', $5, true)) IS NOT NULL
RETURNING current_value, date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited`

// addFreeSQL is addGroupSQL for the rows that nobody else has locked. It also
// returns those that somebody has, lest they be taken for missing ones.
const addFreeSQL = `
WITH asked AS MATERIALIZED (
    SELECT c.item_id, c.n, c.delta, c.lowest, c.highest
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
     WHERE (SELECT set_config('lock_timeout', $5, true)) IS NOT NULL
), held AS MATERIALIZED (
    SELECT v.item_id, v.current_value, c.n, c.delta, c.lowest, c.highest
      FROM asked c
      JOIN counts.count_values v ON v.item_id = c.item_id
     ORDER BY v.item_id
       FOR UPDATE OF v SKIP LOCKED
), changed AS (
    UPDATE counts.count_values v
       SET current_value = v.current_value + h.delta, last_updated_at = clock_timestamp()
      FROM held h
     WHERE v.item_id = h.item_id
       AND v.current_value BETWEEN h.lowest AND h.highest
    RETURNING h.n, v.current_value
)
SELECT c.n, h.n IS NOT NULL AS held, changed.n IS NOT NULL AS changed, coalesce(changed.current_value, h.current_value) AS current_value,
       0 AS waited
  FROM asked c
  JOIN counts.count_values v ON v.item_id = c.item_id
  LEFT JOIN held h ON h.n = c.n
  LEFT JOIN changed ON changed.n = c.n`

const (
	// aloneWait is how long an add that is applied by itself waits for its row
	// within a pass that skips locked rows.
	aloneWait = 50 * time.Millisecond
	// maxAlone bounds how long such adds can hold up the group they came in.
	maxAlone = 8
)

// Add implements counting.CountValueRepository.
func (s *Store) Add(ctx context.Context, id counting.ItemID, delta int64) (int64, error) {
	return s.adds.Do(ctx, add{id: string(id), delta: delta})
}

// runAdds is the coalescer's Run.
func (s *Store) runAdds(ctx context.Context, pass coalesce.Pass, group []add) ([]coalesce.Answer[int64], error) {
	answers := make([]coalesce.Answer[int64], len(group))
	p := newPlan(group)
	outcomes, err := s.apply(ctx, pass, p)
	if err != nil {
		return nil, verdict(err)
	}
	s.applyRest(ctx, max(pass.Wait, aloneWait), group, p.settle(outcomes, answers), answers)
	return answers, nil
}

// apply runs the plan's statement and says what became of each change.
func (s *Store) apply(ctx context.Context, pass coalesce.Pass, p *plan) ([]outcome, error) {
	if len(p.changes) == 1 && !pass.SkipLocked {
		o, err := s.applyOne(ctx, pass.Wait, p.changes[0])
		if err != nil || o.changed {
			return []outcome{o}, err
		}
		// It found no row, and applied nothing; the other statement tells why.
	}
	return s.applyGroup(ctx, pass, p)
}

// applyOne changes a single count. The zero outcome says that it found no row
// to change.
func (s *Store) applyOne(ctx context.Context, wait time.Duration, c *change) (outcome, error) {
	var o outcome
	var waited float64
	lowest, highest := c.bounds()
	err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		err := conn.QueryRowContext(ctx, addOneSQL, c.id, c.sum, lowest, highest, milliseconds(wait)).Scan(&o.value, &waited)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			o.exists, o.held, o.changed = true, true, true
		}
		return err
	})
	if o.held || err != nil {
		s.waited(waited, wait, err)
	}
	return o, err
}

// applyGroup changes all counts of the plan in one statement.
func (s *Store) applyGroup(ctx context.Context, pass coalesce.Pass, p *plan) ([]outcome, error) {
	statement := addGroupSQL
	if pass.SkipLocked {
		statement = addFreeSQL
	}
	ids, sums, lowest, highest := p.arrays()
	outcomes := make([]outcome, len(p.changes))
	var longest float64
	err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn) (err error) {
		rows, err := conn.QueryContext(ctx, statement,
			pq.StringArray(ids), pq.Int64Array(sums), pq.Int64Array(lowest), pq.Int64Array(highest), milliseconds(pass.Wait))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		clear(outcomes) // the statement may be run again
		longest = 0
		for rows.Next() {
			var n int // the change, counted from 1
			o := outcome{exists: true}
			var value sql.NullInt64 // of a row that is not held it is unknown
			var waited float64
			if err := rows.Scan(&n, &o.held, &o.changed, &value, &waited); err != nil {
				return err
			}
			longest = max(longest, waited)
			o.value = value.Int64
			outcomes[n-1] = o
		}
		return rows.Err()
	})
	if !pass.SkipLocked {
		s.waited(longest, pass.Wait, err)
	}
	return outcomes, err
}

// waited notes how long a statement waited for its rows: as it says itself, or all of
// the wait that it was given.
func (s *Store) waited(seconds float64, wait time.Duration, err error) {
	switch {
	case err == nil:
		s.lock.Waited(contention.InDatabase, time.Duration(seconds*float64(time.Second)))
	case sqldb.LockTimedOut(err):
		s.lock.Waited(contention.InDatabase, wait)
	}
}

// applyRest applies the adds that did not fit as a sum, each by itself and in
// order of arrival, so that each gets its own verdict. It runs at most maxAlone
// statements; who is left is told to come again, in a lane that does not delay
// the other counts.
func (s *Store) applyRest(ctx context.Context, wait time.Duration, group []add, rests []*rest, answers []coalesce.Answer[int64]) {
	left := maxAlone
	for _, r := range rests {
		for !r.done(group, answers) {
			if left == 0 {
				r.postpone(answers)
				break
			}
			left--
			p := newPlan(group[r.callers[0] : r.callers[0]+1])
			outcomes, err := s.applyGroup(ctx, coalesce.Pass{Wait: wait}, p)
			if err = verdict(err); errors.Is(err, coalesce.ErrLockWait) {
				r.postpone(answers)
				break
			}
			r.note(outcomes[0], err, answers)
		}
	}
}

// verdict tells the coalescer what it may do about a failed statement.
func verdict(err error) error {
	if outcome, ok := sqldb.OutcomeOf(err); !ok || outcome != sqldb.NotApplied {
		return err
	}
	switch state := sqldb.SQLState(err); {
	case state == lockNotAvailable:
		return fmt.Errorf("%w: %w", coalesce.ErrLockWait, err)
	case len(state) == 5 && (state[:2] == dataException || state[:2] == programLimit):
		return fmt.Errorf("%w: %w", coalesce.ErrSplit, err)
	}
	return err
}

// SQLSTATEs and classes, PostgreSQL manual, appendix A.
const (
	lockNotAvailable = "55P03"
	dataException    = "22"
	programLimit     = "54"
)

// milliseconds writes a wait as lock_timeout wants it; 0 would mean for ever.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
