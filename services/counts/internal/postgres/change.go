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
		if answer, decided, err := s.add(ctx, r.Changes[0]); decided {
			return answer, err
		}
	}

	q := s.newRequest(r)
	answer, err := s.changes.Do(ctx, q)
	if errors.Is(err, groupcommit.ErrSplit) { // the counts may be free by now; if not, the answer names a locked one
		answer, err = s.changeAlone(ctx, q, 0)
	}
	if isHeldUp(answer, err) {
		answer, err = groupcommit.Retry(ctx, s.patient, q.waitsFor(answer), since,
			func(lockWait time.Duration) (counting.Answer, error) { return s.changeAlone(ctx, q, lockWait) })
	}
	if err != nil {
		return counting.Answer{}, err
	}
	return answer, answer.Err()
}

// request is an element of a group of changes.
type request struct {
	counting.Request

	ids  []string // its counts, each once, in byte order
	lane string   // the id of its only count, or a lane to itself
}

func (s *Store) newRequest(r counting.Request) request {
	q := request{Request: r, ids: make([]string, len(r.Changes))}
	for i, c := range r.Changes {
		q.ids[i] = string(c.ItemID)
	}
	slices.Sort(q.ids)
	q.ids = slices.Compact(q.ids)

	q.lane = q.ids[0]
	if q.several() {
		q.lane = "\x00" + strconv.FormatUint(s.requests.Add(1), 10) // which no id of a count begins with
	}
	return q
}

// several reports whether the request locks several counts, so that it must not wait long for one of them.
func (q request) several() bool { return len(q.ids) > 1 }

func (q request) laneKey() string { return q.lane }

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
	// aloneWait bounds the wait of a request that is tried alone for a count that has stayed locked, and of each request
	// for a key. It holds other counts meanwhile.
	aloneWait = 25 * time.Millisecond
)

// isHeldUp reports whether another session held a row that a request needs, and nothing was decided.
func isHeldUp(a counting.Answer, err error) bool {
	return err == nil && a.HeldUp || errors.Is(err, groupcommit.ErrSplit) || sqldb.LockTimedOut(err)
}

// waitsFor returns the key of the request's wait: a count that is locked, or the request's key or smallest id, when
// another session is taking the key or creating a count.
func (q request) waitsFor(a counting.Answer) any {
	switch {
	case a.HeldUp:
		return string(q.Changes[a.Index].ItemID)
	case q.Key.Value != "":
		return counting.KeyID{Caller: q.Key.Caller, Value: q.Key.Value}
	}
	return q.ids[0]
}

// changeAlone tries a request once, in a separate transaction. Without a wait it passes over locked counts.
func (s *Store) changeAlone(ctx context.Context, q request, lockWait time.Duration) (counting.Answer, error) {
	var waited time.Duration
	skips := lockWait == 0
	if skips {
		lockWait = glance
	}
	defer func() { s.limits.Contention.Waited(contention.InDatabase, waited) }()

	change := func(ctx context.Context, tx *sqlx.Tx, a *groupcommit.Attempt) ([]*counting.Answer, error) {
		a.LockWait, a.SkipLocked = lockWait, skips
		answers, err := s.change(ctx, tx, a, []request{q})
		waited = a.Waited
		return answers, err
	}
	answers, err := groupcommit.Transact(ctx, s.limits.Slots, q.place(), change, sqldb.WithLockTimeout(lockWait))
	switch {
	case err != nil:
		return counting.Answer{}, err
	case answers[0] == nil:
		return counting.Answer{HeldUp: true}, nil
	}
	return *answers[0], nil
}

// sendChanges sends a group of changes: see groupcommit.Config.Send.
func (s *Store) sendChanges(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []request,
) error {
	_, err := s.change(ctx, session, a, group)
	return err
}

// change applies a group in a transaction, in the order of design: lock the counts, read the keys, decide, create
// counts, and write the rest, with the keys and the slot. Every replica does so in this order, and each step in
// byte order, so that two never wait for each other.
//
// A request of one count that is locked has the answer nil, and goes to the count's lane. One of several counts is
// answered as held up, and is tried alone.
//
// It returns ErrSplit where the group must not wait for one request: for a count that is locked, while it holds others;
// for a key that another session is taking, while it holds a count; and when another replica has been quicker to create
// a count or to take a key, so that the decisions do not hold.
func (s *Store) change(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []request,
) ([]*counting.Answer, error) {
	one := oneLane(group)
	wait := glance
	if one {
		wait = a.LockWait
	}

	state, err := s.lockCounts(ctx, session, a, group)
	if err != nil {
		return nil, split(err, one && group[0].several())
	}
	state.Keys, err = findKeys(ctx, session, group)
	if err != nil {
		return nil, err
	}

	requests := make([]counting.Request, len(group))
	for i, q := range group {
		requests[i] = q.Request
	}
	d := counting.Decide(requests, state)
	answers := make([]*counting.Answer, len(group))
	for i := range group {
		if !d.Answers[i].HeldUp || group[i].several() {
			answers[i] = &d.Answers[i]
		}
	}

	if err := create(ctx, session, d.Writes, state.Now, wait); err != nil {
		return nil, split(err, one && group[0].several())
	}
	return answers, split(s.write(ctx, session, a, d, answers, state.Now, min(wait, aloneWait)), one)
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

// lockCounts locks the counts of a group, and returns their values.
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
