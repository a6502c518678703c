package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Apply implements counting.CountValueRepository. Concurrent updates share one statement: the coalescer calls
// applyGroup with those that came while the statement before was under way, and returns to each caller its own answer.
func (s *Store) Apply(ctx context.Context, update counting.Update) (counting.Result, error) {
	r, do := s.newRequest(update), s.applyOnShard
	if !s.onCitus() {
		do = s.adds.Do
	}
	a, err := do(ctx, r)
	if err != nil {
		return counting.Result{Replayed: a.replayed}, err
	}
	if r.update == nil {
		a.values = []int64{a.value}
	}
	return counting.Result{Values: a.values, Replayed: a.replayed}, nil
}

// applyGroup applies a group of requests and returns their answers, in the group's order: the values that the callers
// would have got one after the other.
func (s *Store) applyGroup(
	ctx context.Context, pass coalesce.Pass, group []request,
) ([]coalesce.Answer[reply], error) {
	switch {
	case !slices.ContainsFunc(group, func(r request) bool { return r.update != nil }):
		return s.applyAdds(ctx, pass, group)
	case !pass.SkipLocked:
		return s.applyUpdates(ctx, pass, group)
	}
	// A key that another session is taking cannot be skipped.
	return coalesce.Halve(group, func(wait time.Duration, part []request) ([]coalesce.Answer[reply], error) {
		return s.applyUpdates(ctx, coalesce.Pass{Wait: wait, SkipLocked: true}, part)
	}), nil
}

// applyAdds is applyGroup for adds alone.
func (s *Store) applyAdds(ctx context.Context, pass coalesce.Pass, group []request) ([]coalesce.Answer[reply], error) {
	sums := sumByItem(group)
	results, err := s.addSums(ctx, pass, sums)
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	answers := make([]coalesce.Answer[reply], len(group))
	leftovers := distribute(group, sums, results, answers)
	s.addOneByOne(ctx, max(pass.Wait, aloneWait), group, leftovers, answers)
	return answers, nil
}

// addSums adds each sum to its count in one statement, and returns what became of each.
func (s *Store) addSums(ctx context.Context, pass coalesce.Pass, sums []*itemSum) ([]result, error) {
	if len(sums) == 1 && !pass.SkipLocked && !s.onCitus() {
		r, err := s.addSingle(ctx, pass.Wait, sums[0])
		if err != nil || r.changed {
			return []result{r}, err
		}
		// It found no row and applied nothing; the other statement finds out why.
	}
	return s.addSeveral(ctx, pass, sums)
}

// The statements set lock_timeout for themselves, in a sub-select that the planner evaluates before it touches a row (a
// one-time filter). It saves the round trip of a SET LOCAL, and works behind a transaction pooler.
//
// "waited" is the time in seconds from the statement's begin until a row was locked and changed, by the server's
// clock. It contains no commit and no network. RETURNING reads the clock after the wait; an expression of SET is
// computed again after a wait only when the other transaction has changed the row.

// addSingleSQL changes one count. No row means that it is absent or would overflow.
const addSingleSQL = `
WITH changed AS (
    UPDATE counts.count_values
       SET current_value = current_value + $2, last_updated_at = clock_timestamp()
     WHERE item_id = $1
       AND current_value BETWEEN $3 AND $4
       AND (SELECT set_config('lock_timeout', $5, true)) IS NOT NULL
    RETURNING current_value, date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $6, ARRAY[current_value], clock_timestamp() + $7 * interval '1 microsecond'
      FROM changed
)
SELECT current_value, waited
  FROM changed`

// addSingle changes one count. The zero result says that it found no row to change.
func (s *Store) addSingle(ctx context.Context, wait time.Duration, sum *itemSum) (result, error) {
	var r result
	var waited float64
	lowest, highest := sum.bounds()
	stored, err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn, id uuid.UUID) error {
		row := conn.QueryRowContext(ctx, addSingleSQL, sum.id, sum.delta, lowest, highest, sqldb.Milliseconds(wait),
			id, s.journalTTL.Microseconds())
		err := row.Scan(&r.value, &waited)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		r.exists, r.held, r.changed = err == nil, err == nil, err == nil
		return err
	})
	if stored != nil {
		return result{exists: true, held: true, changed: true, value: stored[0].value}, err
	}
	if r.changed || err != nil {
		s.recordWait(waited, wait, err)
	}
	return r, err
}

// addFreeSQL is addGroupSQL (group.go) for the rows that no other transaction has locked. It also returns the places of
// the rows that another transaction has locked, so that they are not taken for missing ones.
const addFreeSQL = `
WITH asked AS MATERIALIZED (
    SELECT c.item_id, c.n, c.delta, c.lowest, c.highest
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
           WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
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
), result AS MATERIALIZED (
    SELECT array_agg(n) || array_agg(current_value) AS changed, count(*) AS rows
      FROM changed
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $6, changed, clock_timestamp() + $7 * interval '1 microsecond'
      FROM result
     WHERE rows > 0
)
SELECT changed, (SELECT array_agg(n) || array_agg(current_value) FROM held) AS held,
       (SELECT array_agg(c.n)
          FROM asked c
          JOIN counts.count_values v ON v.item_id = c.item_id
         WHERE NOT EXISTS (SELECT FROM held h WHERE h.n = c.n)) AS locked,
       0 AS waited
  FROM result`

// addSeveral changes the counts of sums in one statement.
func (s *Store) addSeveral(ctx context.Context, pass coalesce.Pass, sums []*itemSum) ([]result, error) {
	if s.onCitus() {
		return s.addOnShard(ctx, pass, sums)
	}
	statement := addGroupSQL
	if pass.SkipLocked {
		statement = addFreeSQL
	}
	ids, deltas, lowest, highest := arrays(sums)
	var changed, held nullInts // quicker to scan than a pq.Int64Array
	var locked pq.Int64Array
	var waited float64
	stored, err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn, id uuid.UUID) error {
		return conn.QueryRowContext(ctx, statement, pq.StringArray(ids), pq.Int64Array(deltas),
			pq.Int64Array(lowest), pq.Int64Array(highest), sqldb.Milliseconds(pass.Wait),
			id, s.journalTTL.Microseconds()).Scan(&changed, &held, &locked, &waited)
	})
	if stored != nil {
		return resultsStored(len(sums), stored), err
	}
	if !pass.SkipLocked {
		s.recordWait(waited, pass.Wait, err)
	}
	if err != nil {
		return make([]result, len(sums)), err
	}
	return results(len(sums), changed, held, locked), nil
}

// recordWait records how long a statement waited for its rows: the seconds that it returned, or all of wait when it
// gave up.
func (s *Store) recordWait(seconds float64, wait time.Duration, err error) {
	switch {
	case err == nil:
		s.lock.Waited(contention.InDatabase, time.Duration(seconds*float64(time.Second)))
	case sqldb.LockTimedOut(err):
		s.lock.Waited(contention.InDatabase, wait)
	}
}

const (
	// aloneWait is how long an add that is applied by itself waits for its row, in a pass that skips locked rows.
	aloneWait = 50 * time.Millisecond
	// maxAlone bounds how long such adds can delay the group that they came in.
	maxAlone = 8
)

// addOneByOne applies the adds whose sum did not fit, each by itself and in order of arrival, so that each gets its
// own answer. It runs at most maxAlone statements; the adds that are left after those are tried again in the slow
// lane, which does not delay the other counts.
func (s *Store) addOneByOne(
	ctx context.Context, wait time.Duration, group []request, leftovers []*leftover, answers []coalesce.Answer[reply],
) {
	statements := 0
	for _, l := range leftovers {
		l.refuseOverflows(group, answers)
		for len(l.callers) > 0 {
			if statements == maxAlone {
				l.retryLater(answers)
				break
			}
			statements++
			results, err := s.addSeveral(ctx, coalesce.Pass{Wait: wait}, sumByItem(group[l.callers[0]:l.callers[0]+1]))
			if err = coalesce.Classify(err); errors.Is(err, coalesce.ErrLockWait) {
				l.retryLater(answers)
				break
			}
			l.answerFirst(results[0], err, answers)
			l.refuseOverflows(group, answers)
		}
	}
}
