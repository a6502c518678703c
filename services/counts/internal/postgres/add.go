package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// plainAdd is a counting.Request that is Plain.
type plainAdd struct {
	id    string
	delta int64
}

func (a plainAdd) lane() string { return a.id }

// rowOverhead is the size in bytes of a change on the wire without its id: integers as digits, and separators.
const rowOverhead = 64

func (a plainAdd) size() int { return len(a.id) + rowOverhead }

// addAnswer is the value after an add as a number, one of the words below, or null if the row is locked.
type addAnswer = json.RawMessage

const (
	addMissing = `"missing"`
	// addFull says that the adds of a group would overflow together. A transaction then decides each of them.
	addFull = `"full"`
)

// add makes a plain change. Concurrent adds share one statement. decided is false if nothing was changed because the
// adds of the group would overflow together.
func (s *Store) add(ctx context.Context, c counting.Change) (answer counting.Answer, decided bool, err error) {
	said, err := s.adds.Do(ctx, plainAdd{id: string(c.ItemID), delta: c.Delta})
	switch {
	case err != nil:
		return counting.Answer{}, true, err
	case string(said) == addMissing:
		return counting.Answer{}, true, counting.ErrNotFound
	case string(said) == addFull:
		return counting.Answer{}, false, nil
	}

	value, err := strconv.ParseInt(string(said), 10, 64)
	if err != nil {
		return counting.Answer{}, true, fmt.Errorf("counts: the answer to an add: %w", err)
	}
	return counting.Answer{Values: []int64{value}}, true, nil
}

// addSums are the adds of a group, summed up by count.
type addSums struct {
	// For each count: its id, the sum of its adds, and the range of values from which no step overflows.
	ids             []string
	deltas          []int64
	lowest, highest []int64
	// For each add: the index of its count, from 1, and the sum of that count's adds up to this one.
	places, running []int64
}

// sumUp sums up the adds of a group, in order of arrival.
func sumUp(group []plainAdd) *addSums {
	s := &addSums{places: make([]int64, len(group)), running: make([]int64, len(group))}
	place := make(map[string]int, len(group))
	for i, a := range group {
		n, seen := place[a.id]
		if !seen {
			n = len(s.ids)
			place[a.id] = n
			s.ids, s.deltas = append(s.ids, a.id), append(s.deltas, 0)
			s.lowest, s.highest = append(s.lowest, math.MinInt64), append(s.highest, math.MaxInt64)
		}
		s.places[i] = int64(n + 1)
		s.running[i] = s.step(n, a.delta)
	}
	return s
}

// step adds to the sum of count n and returns the new sum. If that overflows, no value of the count is in range.
func (s *addSums) step(n int, delta int64) int64 {
	sum, fits := counting.Sum(s.deltas[n], delta)
	if !fits || s.lowest[n] > s.highest[n] {
		s.lowest[n], s.highest[n] = math.MaxInt64, math.MinInt64
		return 0
	}

	s.deltas[n] = sum
	s.lowest[n] = max(s.lowest[n], math.MinInt64-min(sum, 0))
	s.highest[n] = min(s.highest[n], math.MaxInt64-max(sum, 0))
	return sum
}

// The statements lock their slot first, and lock counts only if the slot holds the previous attempt. Otherwise they
// change nothing and return no row. waited is the time in seconds until all rows were locked, by the server's clock,
// without commit and network.
const (
	addSlotSQL = `
WITH slot AS MATERIALIZED (
    SELECT id
      FROM counts.slots
     WHERE place = $4 AND` + groupcommit.LockSlotSQL

	addDoneSQL = `
), done AS (
    UPDATE counts.slots s
       SET attempt = $2, answers = a.list, used_at = statement_timestamp()
      FROM answers a
     WHERE s.place = $4
       AND s.id = (SELECT id FROM slot)
    RETURNING s.answers
)`
)

// addOneSQL changes one count.
const addOneSQL = addSlotSQL + `, changed AS (
    UPDATE counts.count_values
       SET current_value = current_value + $6, last_updated_at = clock_timestamp()
     WHERE item_id = $5
       AND current_value BETWEEN $7 AND $8
       AND EXISTS (SELECT FROM slot)
    RETURNING current_value - $6 AS before, date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited
), answers AS MATERIALIZED (
    SELECT ('[' || string_agg(
               CASE WHEN c.before IS NOT NULL THEN (c.before + r.running)::text
                    WHEN EXISTS (SELECT FROM counts.count_values v WHERE v.item_id = $5) THEN '"full"'
                    ELSE '"missing"' END, ',' ORDER BY r.n) || ']')::json AS list
      FROM unnest($9::bigint[]) WITH ORDINALITY AS r (running, n)
      LEFT JOIN changed c ON true` + addDoneSQL + `
SELECT d.answers, coalesce((SELECT waited FROM changed), 0) AS waited
  FROM done d`

// addSeveralSQL returns the statement that locks counts in the order of their ids and then changes them. Sorted
// parameters alone are not enough: the planner chooses the order in which a plain UPDATE locks, and replicas deadlock.
// A count that is held but not changed would overflow. One that exists but is not held is locked by another session:
// its adds go to its lane. The clock is read once the counts are held. The values before the change are looked up in an
// object: the planner expects short arrays, and a join with one makes a group of 500 a fifth slower.
//
// lock is SKIP LOCKED or empty; only adds the condition that the counts are on one shard.
func addSeveralSQL(lock string, only condition) string {
	ofShard := only("v.item_id = ANY ($5)")

	return addSlotSQL + `, held AS MATERIALIZED (
    SELECT v.item_id, c.n, c.delta, c.lowest, c.highest
      FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
           WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE EXISTS (SELECT FROM slot)` + ofShard + `
     ORDER BY v.item_id
       FOR UPDATE OF v ` + lock + `
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, count(*) AS held
      FROM held
), changed AS (
    UPDATE counts.count_values v
       SET current_value = v.current_value + h.delta, last_updated_at = k.now
      FROM held h, clock k
     WHERE v.item_id = h.item_id` + ofShard + `
       AND v.current_value BETWEEN h.lowest AND h.highest
    RETURNING h.n, v.current_value - h.delta AS before
), before AS MATERIALIZED (
    SELECT jsonb_object_agg(n, before) AS of
      FROM changed
), answers AS MATERIALIZED (
    SELECT ('[' || string_agg(
               coalesce(((b.of ->> r.place::text)::bigint + r.running)::text,
                        CASE WHEN EXISTS (SELECT FROM held h WHERE h.n = r.place) THEN '"full"'
                             WHEN EXISTS (SELECT FROM counts.count_values v
                                           WHERE v.item_id = ($5::text[])[r.place]` + ofShard + `)
                             THEN 'null'
                             ELSE '"missing"' END), ',' ORDER BY r.n) || ']')::json AS list
      FROM unnest($9::bigint[], $10::int[]) WITH ORDINALITY AS r (running, place, n), before b` + addDoneSQL + `
SELECT d.answers, date_part('epoch', k.now - statement_timestamp()) AS waited
  FROM done d, clock k`
}

// sendAdds sends a group of adds: see groupcommit.Config.Send.
func (s *Store) sendAdds(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []plainAdd,
) error {
	sums := sumUp(group)

	if len(sums.ids) == 1 && !a.SkipLocked && s.texts.addOne != "" {
		return a.Run(ctx, session, s.texts.addOne,
			a.Place, sums.ids[0], sums.deltas[0], sums.lowest[0], sums.highest[0], pq.Int64Array(sums.running))
	}

	query := s.texts.addSeveral
	if a.SkipLocked {
		query = s.texts.addFree
	}
	return a.Run(ctx, session, query,
		a.Place, pq.StringArray(sums.ids), pq.Int64Array(sums.deltas), pq.Int64Array(sums.lowest),
		pq.Int64Array(sums.highest), pq.Int64Array(sums.running), pq.Int64Array(sums.places))
}
