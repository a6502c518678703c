package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Get implements attempt.Repository. Reads are grouped because single reads cost the replica more.
func (s *Store) Get(ctx context.Context, list attempt.List, item attempt.Item) (int64, error) {
	attempts, err := s.gets.Do(ctx, key{string(list), string(item)})
	switch {
	case errors.Is(err, groupcommit.ErrUnknown):
		return 0, errors.Join(groupcommit.ErrLeft, ctx.Err())
	case err == nil && attempts < 0:
		return 0, attempt.ErrNotFound
	}
	return attempts, sqldb.AsNotApplied(err) // it is a read
}

// Apply implements attempt.Repository. A change with a claim becomes a batch of one item, because the statement of a
// group does not check claims.
func (s *Store) Apply(
	ctx context.Context, change attempt.Change, list attempt.List, item attempt.Item, claim attempt.Claim,
) (int64, error) {
	if claim != "" {
		return s.ApplyBatch(ctx, change, list, attempt.ItemsOf(item), claim)
	}
	n, err := s.changes[change].Do(ctx, key{string(list), string(item)})
	s.noteChange(change, list, n)
	return n, err
}

// key is one item of one list: a request, and the row that it locks.
type key struct{ list, item string }

func (k key) itself() key { return k }

func (k key) place() string { return k.list }

// size returns the bytes that a request takes on the wire.
func (k key) size() int {
	const separators = 8
	return len(k.list) + len(k.item) + separators
}

// committer groups the requests of one kind.
type committer = groupcommit.Committer[key, key, int64]

// requests configures how requests of one kind are sent or read.
type requests = groupcommit.Config[key, key, int64]

func newCommitter(name string, limits groupcommit.Limits, r requests) *committer {
	r.Name, r.Limits = name, limits
	r.Key, r.Size, r.Place = key.itself, key.size, key.place
	return groupcommit.New(r)
}

// getSQL returns a statement that returns the attempts of each item in the order of the arguments, -1 for an item that
// is not in its list. $3 has the distinct lists.
func getSQL(only condition) string {
	return `
SELECT ARRAY(SELECT coalesce((SELECT l.attempts
                                FROM iidy.lists l
                               WHERE l.list = a.list AND l.item = a.item AND ` + only("l.list = ANY ($3)") + `), -1)
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS a (list, item, n)
              ORDER BY a.n) AS attempts`
}

// get reads a group. The statement is sent after all of its requests have arrived, so each sees every change that was
// acknowledged before. It does not wait for pages.
func (s *Store) get(
	ctx context.Context, session groupcommit.Session, _ *groupcommit.Attempt, group []key,
) ([]*int64, error) {
	g := newGroup(attempt.Increment, group)
	var attempts pq.Int64Array
	if err := session.GetContext(ctx, &attempts, s.text.get, g.lists, g.items, g.distinct()); err != nil {
		return nil, err
	}

	answers := make([]*int64, len(attempts))
	for i := range attempts {
		answers[i] = &attempts[i]
	}
	return answers, nil
}

// The parts of the statements of changes. $1 to $3 come from groupcommit's Run, $4 is the slot's place. The slot is
// locked first; if it does not hold the previous attempt, nothing is changed.
const (
	slotSQL = `
WITH slot AS MATERIALIZED (
    SELECT id
      FROM iidy.slots
     WHERE place = $4 AND` + groupcommit.LockSlotSQL

	// doneSQL stores the answers, with the time at which all items were changed.
	doneSQL = `
), done AS (
    UPDATE iidy.slots s
       SET attempt = $2, answers = a.answers, used_at = a.t
      FROM answers a
     WHERE s.place = $4
       AND s.id = (SELECT id FROM slot)
    RETURNING s.answers, s.used_at
)
SELECT answers, greatest(date_part('epoch', used_at - statement_timestamp()), 0) AS waited FROM done`
)

// oneSQL returns the statement for changes of one item, which takes half the time of a group's. $5 and $6 are the list
// and the item, $7 and $8 the answers if it was changed and if not, and $9 the number of increments.
func oneSQL(change attempt.Change) string {
	const (
		increment = `
    UPDATE iidy.lists l
       SET attempts = least(l.attempts, 9223372036854775807 - $9::bigint) + $9
     WHERE l.list = $5 AND l.item = $6 AND EXISTS (SELECT FROM slot)`

		remove = `
    DELETE FROM iidy.lists l
     WHERE l.list = $5 AND l.item = $6 AND EXISTS (SELECT FROM slot)`

		add = `
    INSERT INTO iidy.lists (list, item)
    SELECT $5, $6
     WHERE EXISTS (SELECT FROM slot)
    ON CONFLICT (list, item) DO NOTHING`

		answers = `
    RETURNING 1
), answers AS MATERIALIZED (
    SELECT CASE WHEN count(*) > 0 THEN $7::json ELSE $8::json END AS answers, clock_timestamp() AS t FROM changed`
	)
	changed := [...]string{attempt.Add: add, attempt.Increment: increment, attempt.Delete: remove}[change]
	return slotSQL + `, changed AS (` + changed + answers + doneSQL
}

// The parts of a group's statement. $5 and $6 are the lists and the items of the requests. $7 is the number of changes
// of an item, at its first request, and 0 at the others. $8 has the distinct lists. Items are locked in byte order, by
// the ORDER BY below LATERAL.
const (
	askedSQL = slotSQL + `, asked AS MATERIALIZED (
    SELECT a.list COLLATE "C" AS list, a.item COLLATE "C" AS item, a.times, a.n
      FROM unnest($5::text[], $6::text[], $7::bigint[]) WITH ORDINALITY AS a (list, item, times, n)
     WHERE EXISTS (SELECT FROM slot)
)`

	heldSQL = askedSQL + `, held AS MATERIALIZED (
    SELECT h.list, h.item, a.times
      FROM (SELECT list, item, times FROM asked WHERE times > 0 ORDER BY list, item) AS a
     CROSS JOIN LATERAL (
           SELECT l.list, l.item
             FROM iidy.lists l
            WHERE l.list = a.list AND l.item = a.item AND `

	changedSQL = `) AS h
), changed AS (`

	incrementSQL = `
    UPDATE iidy.lists l
       SET attempts = least(l.attempts, 9223372036854775807 - h.times) + h.times
      FROM (SELECT list, item, times FROM (SELECT list, item, times FROM (SELECT list, item, times FROM held` +
		fewSQL + theseSQL

	deleteSQL = `
    DELETE FROM iidy.lists l
     USING ` + fewHeldSQL + theseSQL

	// fewHeldSQL reads held through limits, hidden in sub-selects, that make the planner expect one row instead of a
	// thousand: it then looks each row up by the key, instead of reading the whole list to join it.
	fewHeldSQL = `(SELECT list, item FROM (SELECT list, item FROM (SELECT list, item FROM held` + fewSQL

	fewSQL = allSQL + allSQL + allSQL

	allSQL = ` LIMIT (SELECT 9223372036854775807)) AS h`

	// theseSQL looks the rows of h up by the key. With = instead of ANY the planner would join them with the whole index
	// while the table is small, and keep that plan.
	theseSQL = `
     WHERE l.list = ANY (ARRAY[h.list]) AND l.item = h.item AND `

	// addSQL is for one server. On Citus an INSERT in a CTE does not go to a worker as a whole: see addGroup.
	addSQL = askedSQL + `, changed AS (
    INSERT INTO iidy.lists AS l (list, item)
    SELECT list, item
      FROM asked
     WHERE times > 0
     ORDER BY list, item
    ON CONFLICT (list, item) DO NOTHING`

	answersSQL = `
    RETURNING l.list, l.item
), answers AS MATERIALIZED (
    SELECT clock_timestamp() AS t,
           json_agg(CASE WHEN (a.list, a.item) IN (SELECT list, item FROM changed) THEN `

	// An item is added or deleted once, and incremented by each request.
	onceSQL = `(a.times > 0)::int`
	eachSQL = `1`

	// lockedSQL tells an item that was skipped because it is locked from a missing one.
	lockedSQL = `
                         WHEN EXISTS (SELECT
                                        FROM iidy.lists l
                                       WHERE l.list = a.list AND l.item = a.item AND `

	inTurnSQL = `
                         ELSE 0 END ORDER BY a.n) AS answers
      FROM asked a`
)

// groupSQL returns the statement of a group of changes.
func groupSQL(change attempt.Change, skipLocked bool, only condition) string {
	ofLists := only("l.list = ANY ($8)")
	lock, locked := " FOR UPDATE", ""
	if skipLocked {
		lock, locked = " FOR UPDATE SKIP LOCKED", lockedSQL+ofLists+") THEN NULL"
	}

	held, end := heldSQL+ofLists+lock+changedSQL, locked+inTurnSQL+doneSQL
	switch change {
	case attempt.Increment:
		return held + incrementSQL + ofLists + answersSQL + eachSQL + end
	case attempt.Delete:
		return held + deleteSQL + ofLists + answersSQL + onceSQL + end
	case attempt.Add: // an uncommitted item is invisible, and cannot be skipped
	}
	return addSQL + answersSQL + onceSQL + inTurnSQL + doneSQL
}

// group holds the parameters of a group's statement.
type group struct {
	lists, items pq.StringArray
	times        pq.Int64Array
	keys         int // distinct ones
}

// newGroup returns the parameters for requests of a change.
func newGroup(change attempt.Change, named []key) group {
	n := len(named)
	g := group{make(pq.StringArray, n), make(pq.StringArray, n), make(pq.Int64Array, n), 0}

	first := make(map[key]int, n)
	for i, k := range named {
		g.lists[i], g.items[i] = k.list, k.item
		at, repeated := first[k]
		switch {
		case !repeated:
			first[k], g.times[i] = i, 1
		case change == attempt.Increment:
			g.times[at]++
		}
	}
	g.keys = len(first)
	return g
}

// distinct returns the distinct lists.
func (g group) distinct() pq.StringArray {
	lists := slices.Clone(g.lists)
	slices.Sort(lists)
	return slices.Compact(lists)
}

// answers returns the slot's answers to requests for one item, of which the first few have changed it.
func (g group) answers(few int) string {
	ones, others := strings.Repeat(",1", few), strings.Repeat(",0", len(g.items)-few)
	return "[" + (ones + others)[1:] + "]"
}

// sender is a groupcommit.Config.Send.
type sender = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, named []key) error

// send returns a sender for the groups of a change, each in one statement.
func send(change attempt.Change, only condition) sender {
	one, waits, skips := oneSQL(change), groupSQL(change, false, only), groupSQL(change, true, only)
	return func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, named []key) error {
		g := newGroup(change, named)
		query, args := waits, []any{a.Place, g.lists, g.items, g.times, g.distinct()}
		if a.SkipLocked {
			query = skips
		}
		switch {
		case g.keys == 1 && !a.SkipLocked:
			times := int(g.times[0]) // 1 for an add or a delete
			query, args = one, []any{a.Place, g.lists[0], g.items[0], g.answers(times), g.answers(0)}
			if change == attempt.Increment {
				args = append(args, times)
			}
		case change == attempt.Add:
			args = args[:4] // only statements that look items up need the distinct lists
		}

		return a.Run(ctx, s, query, args...)
	}
}
