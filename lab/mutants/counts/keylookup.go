// Mutant of services/counts/internal/postgres/change.go: keys are looked up before the counts are locked, and what was taken since does not matter.

package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Change implements counting.CountValueRepository. A plain add shares one statement with others (add.go). Every other
// change shares a transaction, which locks the counts, lets counting.Decide decide, and writes. A request that holds up
// its group leaves it and is tried alone.
func (s *Store) Change(ctx context.Context, r counting.Request) (counting.Answer, error) {
	if s.distributed && !r.Simple() {
		return counting.Answer{}, counting.ErrNotSupported
	}
	since := time.Now()
	if r.Plain() {
		value, err := s.add(ctx, r.Changes[0])
		if err == nil {
			return counting.Answer{Values: []int64{value}}, nil
		}
		if !errors.Is(err, errFull) {
			return counting.Answer{}, err
		}
	}

	q := s.newRequest(r)
	answer, err := s.changes.Do(ctx, q)
	if errors.Is(err, groupcommit.ErrSplit) || err == nil && answer.HeldUp {
		answer, err = groupcommit.Retry(ctx, s.patient, since, func(lockWait time.Duration) (counting.Answer, error) {
			return s.changeAlone(ctx, q, lockWait)
		})
	}
	if err != nil {
		return counting.Answer{}, err
	}
	return answer, answer.Err(r)
}

// request is what a group of changes carries.
type request struct {
	counting.Request

	ids  []string // its counts, each once
	lane string   // the id of its only count, or a lane to itself
}

func (s *Store) newRequest(r counting.Request) request {
	q := request{Request: r}
	seen := make(map[counting.ItemID]bool, len(r.Changes))
	for _, c := range r.Changes {
		if !seen[c.ItemID] {
			seen[c.ItemID] = true
			q.ids = append(q.ids, string(c.ItemID))
		}
	}

	q.lane = q.ids[0]
	if q.several() {
		q.lane = "\x00" + strconv.FormatUint(s.requests.Add(1), 10) // which no id of a count begins with
	}
	return q
}

// several reports whether the request locks several counts, so that it must not wait long for one of them.
func (q request) several() bool { return len(q.ids) > 1 }

func (q request) laneOf() string { return q.lane }

// place returns a value of the distribution column. On a cluster, where it matters, a request has one count.
func (q request) place() string { return q.ids[0] }

// size returns about how many bytes a request adds to its statements and to the answers: each change has one.
func (q request) size() int {
	size := len(q.Key.Caller) + len(q.Key.Value) + len(q.Changes)*rowOverhead
	for _, id := range q.ids {
		size += len(id)
	}
	return size
}

// oneLane reports whether the requests of a group are all of one lane. No other request of the group waits for them.
func oneLane(group []request) bool {
	return !slices.ContainsFunc(group, func(q request) bool { return q.lane != group[0].lane })
}

const (
	// glance is the wait for a row that another session is inserting, which cannot be skipped, in a group of several
	// lanes.
	glance = 5 * time.Millisecond
	// aloneWait bounds the wait of a request that is tried alone. It holds other rows meanwhile, so it is shorter than the
	// wait of a group for these.
	aloneWait = 25 * time.Millisecond
)

// changeAlone tries a request once, in a separate transaction.
func (s *Store) changeAlone(ctx context.Context, q request, lockWait time.Duration) (counting.Answer, error) {
	a := &groupcommit.Attempt{LockWait: lockWait}
	defer func() { s.limits.Contention.Waited(contention.InDatabase, a.Waited) }()

	change := func(ctx context.Context, tx *sqlx.Tx) (counting.Answer, error) {
		answers, err := s.change(ctx, tx, a, []request{q})
		if err != nil {
			return counting.Answer{}, err
		}
		return answers[0], nil
	}
	return groupcommit.Transact(ctx, s.limits.Slots.At(q.place()), change, sqldb.WithLockTimeout(lockWait))
}

// sendChanges sends a group of changes: see groupcommit.Config.Send. A request of one count that is locked goes to the
// count's lane; one of several counts is answered as held up, and is tried alone.
func (s *Store) sendChanges(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []request,
) error {
	answers, err := s.change(ctx, session, a, group)
	if err != nil {
		return err
	}

	list := make([]*counting.Answer, len(answers))
	for i := range answers {
		if !answers[i].HeldUp || group[i].several() {
			list[i] = &answers[i]
		}
	}
	return a.Store(ctx, session, list)
}

// change applies a group in a transaction, in the order of design: lock the counts, read the keys, decide, create,
// update and delete, take the keys. Every replica does so in this order, and each step in byte order, so that two never
// wait for each other.
//
// It returns ErrSplit where the group must not wait for one request: for a count that is locked, while it holds others;
// for a key that another session is taking, while it holds a count; and when another replica has been quicker to create
// a count or to take a key, so that what was decided does not hold.
func (s *Store) change(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []request,
) ([]counting.Answer, error) {
	one := oneLane(group)
	wait := glance
	if one {
		wait = a.LockWait
	}

	keys, err := findKeys(ctx, session, group)
	if err != nil {
		return nil, err
	}
	state, err := s.lockCounts(ctx, session, a, group)
	if err != nil {
		return nil, split(err, one && group[0].several())
	}
	state.Keys = keys

	requests := make([]counting.Request, len(group))
	for i, q := range group {
		requests[i] = q.Request
	}
	d := counting.Decide(requests, state)

	if err := s.write(ctx, session, d.Writes, state.Now, wait); err != nil {
		return nil, split(err, one && group[0].several())
	}
	if err := s.takeKeys(ctx, session, d.Keys, min(wait, aloneWait)); err != nil {
		return nil, split(err, one)
	}
	return d.Answers, nil
}

// split returns ErrSplit for a lock that did not come free, where the group must not wait for it any longer.
func split(err error, must bool) error {
	if must && sqldb.LockTimedOut(err) {
		return groupcommit.ErrSplit
	}
	return err
}

// lockCountsSQL returns the statement that locks counts in the order of their ids and reads the clock when all are
// locked. lock is SKIP LOCKED or empty; the counts that are left out are named. only is the one of addSeveralSQL.
func lockCountsSQL(lock string, only condition) string {
	return `/* SELECT counts.count_values */
WITH held AS MATERIALIZED (
    SELECT c.n, v.current_value
      FROM unnest($1::text[]) WITH ORDINALITY AS c (item_id, n)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE true` + only("v.item_id = ANY ($1)") + `
     ORDER BY v.item_id
       FOR UPDATE OF v ` + lock + `
), locked AS (
    SELECT c.n
      FROM unnest($1::text[]) WITH ORDINALITY AS c (item_id, n)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE $2::bool` + only("v.item_id = ANY ($1)") + `
       AND NOT EXISTS (SELECT FROM held h WHERE h.n = c.n)
)
SELECT coalesce(array_agg(h.n), '{}') AS places, coalesce(array_agg(h.current_value), '{}') AS values,
       ARRAY(SELECT l.n FROM locked l) AS locked, clock_timestamp() AS now,
       date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited
  FROM held h`
}

// lockCounts locks the counts of a group, and returns what they hold.
func (s *Store) lockCounts(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []request,
) (counting.State, error) {
	var ids []string
	for _, q := range group {
		ids = append(ids, q.ids...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	query := s.texts.lock
	if a.SkipLocked {
		query = s.texts.lockFree
	}

	var row struct {
		Places pq.Int64Array
		Values pq.Int64Array
		Locked pq.Int64Array
		Now    time.Time
		Waited float64 // in seconds
	}
	if err := session.GetContext(ctx, &row, query, pq.StringArray(ids), a.SkipLocked); err != nil {
		return counting.State{}, err
	}
	a.Waited = time.Duration(row.Waited * float64(time.Second))

	state := counting.State{
		Values: make(map[counting.ItemID]int64, len(row.Places)), Locked: make(map[counting.ItemID]bool, len(row.Locked)),
		Now: row.Now.UTC(),
	}
	for i, place := range row.Places {
		state.Values[counting.ItemID(ids[place-1])] = row.Values[i]
	}
	for _, place := range row.Locked {
		state.Locked[counting.ItemID(ids[place-1])] = true
	}
	return state, nil
}

const insertCountsSQL = `
INSERT INTO counts.count_values (item_id, current_value, last_updated_at)
SELECT c.item_id, c.value, $3
  FROM unnest($1::text[], $2::bigint[]) AS c (item_id, value)
 WHERE (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
 ORDER BY c.item_id COLLATE "C"
    ON CONFLICT (item_id) DO NOTHING`

func addToCountsSQL(only condition) string {
	return `
UPDATE counts.count_values v
   SET current_value = v.current_value + c.delta, last_updated_at = $3
  FROM unnest($1::text[], $2::bigint[]) AS c (item_id, delta)
 WHERE v.item_id = c.item_id` + only("v.item_id = ANY ($1)")
}

func replaceCountsSQL(only condition) string {
	return `
UPDATE counts.count_values v
   SET current_value = c.value, last_updated_at = $3
  FROM unnest($1::text[], $2::bigint[]) AS c (item_id, value)
 WHERE v.item_id = c.item_id` + only("v.item_id = ANY ($1)")
}

const removeCountsSQL = `DELETE FROM counts.count_values WHERE item_id = ANY ($1)`

// write writes what was decided of counts, which are locked or not there. It waits for a count that another session is
// creating, and returns ErrSplit when that was quicker.
func (s *Store) write(
	ctx context.Context, session groupcommit.Session, writes []counting.Write, now time.Time, wait time.Duration,
) error {
	ids, values := make(map[counting.WriteKind][]string), make(map[counting.WriteKind][]int64)
	for _, w := range writes {
		value := w.Value
		if w.Kind == counting.AddTo {
			value = w.By
		}
		ids[w.Kind], values[w.Kind] = append(ids[w.Kind], string(w.ItemID)), append(values[w.Kind], value)
	}

	for _, step := range []struct {
		kind  counting.WriteKind
		query string
		last  []any
	}{
		{counting.Insert, insertCountsSQL, []any{now, sqldb.Milliseconds(wait)}},
		{counting.AddTo, s.texts.addTo, []any{now}},
		{counting.Replace, s.texts.replace, []any{now}},
		{counting.Remove, removeCountsSQL, nil},
	} {
		if len(ids[step.kind]) == 0 {
			continue
		}
		args := []any{pq.StringArray(ids[step.kind])}
		if step.kind != counting.Remove {
			args = append(args, pq.Int64Array(values[step.kind]))
		}
		if err := writeAll(ctx, session, len(ids[step.kind]), step.query, append(args, step.last...)...); err != nil {
			return err
		}
	}
	return nil
}

// writeAll sends a statement that should write some rows.
func writeAll(ctx context.Context, session groupcommit.Session, _ int, query string, args ...any) error {
	_, err := session.ExecContext(ctx, query, args...)
	return err
}
