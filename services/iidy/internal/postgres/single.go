package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// key is one item of one list: a call, and the row that it locks.
type key struct{ list, item string }

// size is what a call takes on the wire.
func (k key) size() int {
	const separators = 8
	return len(k.list) + len(k.item) + separators
}

// Get implements attempt.Repository.
func (s *Store) Get(ctx context.Context, list attempt.List, item attempt.Item) (int64, error) {
	attempts, err := s.gets.Do(ctx, key{string(list), string(item)})
	switch {
	case errors.Is(err, coalesce.ErrUnknown):
		// A read leaves no doubt behind.
		return 0, errors.Join(coalesce.ErrLeft, ctx.Err())
	case err != nil:
		return 0, err
	case attempts < 0:
		return 0, attempt.ErrNotFound
	}
	return attempts, nil
}

// runGets is the read lane's Run. Its statement is sent after all its callers have
// come, so that each sees whatever was acknowledged before it asked.
func (s *Store) runGets(ctx context.Context, _ coalesce.Pass, group []key) ([]coalesce.Answer[int64], error) {
	lists, items := arrays(group)
	var attempts pq.Int64Array
	if err := s.db.GetContext(ctx, &attempts, getGroupSQL, lists, items); err != nil {
		return nil, err
	}
	answers := make([]coalesce.Answer[int64], len(group))
	for i := range answers {
		answers[i].Value = attempts[i]
	}
	return answers, nil
}

// One implements attempt.Repository. A change that names a claim is a batch of
// one: whether the claim holds the item is its own question, not the group's.
func (s *Store) One(
	ctx context.Context, change attempt.Change, list attempt.List, item attempt.Item, claim attempt.Claim,
) (int64, error) {
	if claim != "" {
		return s.Many(ctx, change, list, attempt.ItemsOf(item), claim)
	}
	n, err := s.changes[change].Do(ctx, key{string(list), string(item)})
	s.done(change, list, n)
	return n, err
}

// group is a group of calls sorted out by item.
type group struct {
	keys    []key
	callers [][]int // by key: indexes into the calls, in order of arrival
}

// each calls f for every call of the group.
func (g group) each(f func(call int)) {
	for _, callers := range g.callers {
		for _, i := range callers {
			f(i)
		}
	}
}

func newGroup(calls []key) group {
	var g group
	index := make(map[key]int, len(calls))
	for i, k := range calls {
		n, seen := index[k]
		if !seen {
			n = len(g.keys)
			index[k] = n
			g.keys, g.callers = append(g.keys, k), append(g.callers, nil)
		}
		g.callers[n] = append(g.callers[n], i)
	}
	return g
}

// runChanges is the Run of the lane of a change.
func (s *Store) runChanges(
	ctx context.Context, change attempt.Change, pass coalesce.Pass, calls []key,
) ([]coalesce.Answer[int64], error) {
	answers := make([]coalesce.Answer[int64], len(calls))
	g := newGroup(calls)
	if change == attempt.Add && pass.SkipLocked {
		patience := maxPatience
		s.addFree(ctx, g, answers, &patience)
		return answers, nil
	}
	return answers, s.applyGroup(ctx, change, pass, g, answers)
}

// applyGroup runs the group's statement and notes what became of each call.
func (s *Store) applyGroup(
	ctx context.Context, change attempt.Change, pass coalesce.Pass, g group, answers []coalesce.Answer[int64],
) error {
	lists, items := arrays(g.keys)
	times := make(pq.Int64Array, len(g.keys))
	for n, callers := range g.callers {
		times[n] = int64(len(callers))
	}
	var done, locked pq.Int64Array
	var waited float64
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, groupSQL(change, pass.SkipLocked), lists, items, times, milliseconds(pass.Wait)).
			Scan(&done, &locked, &waited)
	})
	if err != nil {
		if sqldb.LockTimedOut(err) {
			s.options.Contention.Waited(contention.InDatabase, pass.Wait)
		}
		return verdict(err)
	}
	if !pass.SkipLocked {
		s.options.Contention.Waited(contention.InDatabase, time.Duration(waited*float64(time.Second)))
	}
	for _, n := range done { // counted from 1
		callers := g.callers[n-1]
		if change != attempt.Increment {
			callers = callers[:1] // it was added or deleted once, by who came first
		}
		for _, i := range callers {
			answers[i].Value = 1
		}
	}
	for _, n := range locked {
		for _, i := range g.callers[n-1] {
			answers[i].Locked = true
		}
	}
	return nil
}

const (
	// glance is how long addFree waits for a row that is being added or deleted.
	glance = 5 * time.Millisecond
	// maxPatience bounds how many such waits a pass may take.
	maxPatience = 24
)

// addFree adds the items that nobody else is adding or deleting at the moment.
// Such rows cannot be seen, let alone be skipped; so it halves the group until what
// is in the way stands alone. When its patience is gone it leaves the rest to the
// slow lane, which waits for each by itself. Each part commits by itself, so an error
// is that of its own callers alone.
func (s *Store) addFree(ctx context.Context, g group, answers []coalesce.Answer[int64], patience *int) {
	err := coalesce.ErrLockWait
	if *patience > 0 {
		err = s.applyGroup(ctx, attempt.Add, coalesce.Pass{Wait: glance}, g, answers)
	}
	switch locked := errors.Is(err, coalesce.ErrLockWait); {
	case err == nil:
		return
	case !locked:
		g.each(func(i int) { answers[i].Err = err })
		return
	}
	*patience--
	if len(g.keys) == 1 || *patience <= 0 {
		g.each(func(i int) { answers[i].Locked = true })
		return
	}
	half := len(g.keys) / 2
	s.addFree(ctx, group{g.keys[:half], g.callers[:half]}, answers, patience)
	s.addFree(ctx, group{g.keys[half:], g.callers[half:]}, answers, patience)
}

// arrays are the lists and the items of calls.
func arrays(keys []key) (lists, items pq.StringArray) {
	lists, items = make(pq.StringArray, len(keys)), make(pq.StringArray, len(keys))
	for i, k := range keys {
		lists[i], items[i] = k.list, k.item
	}
	return lists, items
}

// verdict tells the coalescer what it may do about a failed statement.
func verdict(err error) error {
	if outcome, ok := sqldb.OutcomeOf(err); ok && outcome == sqldb.NotApplied && sqldb.SQLState(err) == lockNotAvailable {
		return fmt.Errorf("%w: %w", coalesce.ErrLockWait, err)
	}
	return err
}

// lockNotAvailable is an SQLSTATE, PostgreSQL manual, appendix A.
const lockNotAvailable = "55P03"

// milliseconds writes a wait as lock_timeout wants it; 0 would mean for ever.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
