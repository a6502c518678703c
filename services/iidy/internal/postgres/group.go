package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Get implements attempt.Repository.
func (s *Store) Get(ctx context.Context, list attempt.List, item attempt.Item) (int64, error) {
	attempts, err := s.coalescers.gets.Do(ctx, key{string(list), string(item)})
	switch {
	case errors.Is(err, coalesce.ErrUnknown):
		// The outcome of a read is never in doubt.
		return 0, errors.Join(coalesce.ErrLeft, ctx.Err())
	case err != nil:
		return 0, err
	case attempts < 0:
		return 0, attempt.ErrNotFound
	}
	return attempts, nil
}

// Apply implements attempt.Repository. A change with a claim is a batch of one item,
// because the statement of a group does not look at claims.
func (s *Store) Apply(
	ctx context.Context, change attempt.Change, list attempt.List, item attempt.Item, claim attempt.Claim,
) (int64, error) {
	if claim != "" {
		return s.ApplyBatch(ctx, change, list, attempt.ItemsOf(item), claim)
	}
	n, err := s.coalescers.changes[change].Do(ctx, key{string(list), string(item)})
	s.noteChange(change, list, n)
	return n, err
}

// key is one item of one list: a call, and the row that it locks.
type key struct{ list, item string }

// size returns the bytes that a call takes on the wire.
func (k key) size() int {
	const separators = 8
	return len(k.list) + len(k.item) + separators
}

type (
	coalescer = coalesce.Coalescer[key, key, int64]
	answer    = coalesce.Answer[int64]
)

// coalescers are the group commits of calls for single items, one for each kind of call.
type coalescers struct {
	db         *sqldb.DB
	contention *contention.Metrics
	gets       *coalescer
	changes    [attempt.Delete + 1]*coalescer // by attempt.Change
}

func newCoalescers(db *sqldb.DB, limits coalesce.Limits) (*coalescers, error) {
	c := &coalescers{db: db, contention: limits.Contention}
	open := func(name string, run func(context.Context, coalesce.Pass, []key) ([]answer, error)) (*coalescer, error) {
		return coalesce.New(coalesce.Config[key, key, int64]{
			Name: name, Key: func(k key) key { return k }, Size: key.size, Run: run, Limits: limits,
		})
	}
	var err error
	for _, change := range attempt.Changes() {
		run := func(ctx context.Context, p coalesce.Pass, calls []key) ([]answer, error) {
			return c.runChanges(ctx, change, p, calls)
		}
		if c.changes[change], err = open("iidy_"+change.String(), run); err != nil {
			return nil, err
		}
	}
	c.gets, err = open("iidy_get", c.runGets)
	return c, err
}

func (c *coalescers) close(ctx context.Context) error {
	err := c.gets.Close(ctx)
	for _, change := range attempt.Changes() {
		err = errors.Join(err, c.changes[change].Close(ctx))
	}
	return err
}

// runGets reads a group. The statement is sent after all its calls have arrived, so
// each sees the changes that were acknowledged before it. A group has a connection of its
// own (GroupConns), so single items do not queue behind pages.
func (c *coalescers) runGets(ctx context.Context, _ coalesce.Pass, calls []key) ([]answer, error) {
	lists, items := arrays(calls)
	var attempts pq.Int64Array
	if err := c.db.GetUnqueued(ctx, &attempts, getGroupSQL, lists, items); err != nil {
		return nil, err
	}
	answers := make([]answer, len(calls))
	for i := range answers {
		answers[i].Value = attempts[i]
	}
	return answers, nil
}

// runChanges applies a group of one change.
func (c *coalescers) runChanges(
	ctx context.Context, change attempt.Change, p coalesce.Pass, calls []key,
) ([]answer, error) {
	answers := make([]answer, len(calls))
	g := newGroup(calls)
	if change == attempt.Add && p.SkipLocked {
		waits := maxGlances
		c.addFree(ctx, g, answers, &waits)
		return answers, nil
	}
	return answers, c.apply(ctx, change, p, g, answers)
}

// group is a group of calls by item.
type group struct {
	keys  []key
	calls [][]int // by key: indexes of the calls, in order of arrival
}

func newGroup(calls []key) group {
	var g group
	index := make(map[key]int, len(calls))
	for i, k := range calls {
		n, seen := index[k]
		if !seen {
			n = len(g.keys)
			index[k] = n
			g.keys, g.calls = append(g.keys, k), append(g.calls, nil)
		}
		g.calls[n] = append(g.calls[n], i)
	}
	return g
}

// each calls f with the answer to every call of the group.
func (g group) each(answers []answer, f func(*answer)) {
	for _, calls := range g.calls {
		for _, i := range calls {
			f(&answers[i])
		}
	}
}

// apply runs the group's statement and sets the answers to its calls.
func (c *coalescers) apply(
	ctx context.Context, change attempt.Change, p coalesce.Pass, g group, answers []answer,
) error {
	lists, items := arrays(g.keys)
	times := make(pq.Int64Array, len(g.keys))
	for n, calls := range g.calls {
		times[n] = int64(len(calls))
	}
	var done, locked pq.Int64Array // ordinals of keys, counted from 1
	var waited float64
	err := c.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, groupSQL(change, p.SkipLocked), lists, items, times, sqldb.Milliseconds(p.Wait)).
			Scan(&done, &locked, &waited)
	})
	if err = coalesce.Classify(err); errors.Is(err, coalesce.ErrLockWait) {
		c.contention.Waited(contention.InDatabase, p.Wait)
	}
	if err != nil {
		return err
	}
	if !p.SkipLocked {
		c.contention.Waited(contention.InDatabase, time.Duration(waited*float64(time.Second)))
	}
	for _, n := range done {
		calls := g.calls[n-1]
		if change != attempt.Increment {
			calls = calls[:1] // the first call added or deleted it
		}
		for _, i := range calls {
			answers[i].Value = 1
		}
	}
	for _, n := range locked {
		for _, i := range g.calls[n-1] {
			answers[i].Locked = true
		}
	}
	return nil
}

const (
	// glance is how long addFree waits for a row that is being added or deleted.
	glance = 5 * time.Millisecond
	// maxGlances bounds the number of these waits in one pass.
	maxGlances = 24
)

// addFree adds the items that no other transaction is adding or deleting. Such rows
// are invisible and cannot be skipped, so it halves the group until the item that
// is locked stands alone, and so it does until an item that makes the statement fail
// does. When no waits are left the remaining calls are answered Locked, and wait in the
// slow lane. Each part commits by itself, so an error concerns the calls of its part alone.
func (c *coalescers) addFree(ctx context.Context, g group, answers []answer, waits *int) {
	err := coalesce.ErrLockWait
	if *waits > 0 {
		err = c.apply(ctx, attempt.Add, coalesce.Pass{Wait: glance}, g, answers)
	}
	if err == nil {
		return
	}
	locked, split := errors.Is(err, coalesce.ErrLockWait), errors.Is(err, coalesce.ErrSplit) && len(g.keys) > 1
	if locked {
		*waits--
	}
	switch {
	case locked && (len(g.keys) == 1 || *waits <= 0):
		g.each(answers, func(a *answer) { a.Locked = true })
		return
	case !locked && !split:
		g.each(answers, func(a *answer) { a.Err = err })
		return
	}
	half := len(g.keys) / 2
	c.addFree(ctx, group{g.keys[:half], g.calls[:half]}, answers, waits)
	c.addFree(ctx, group{g.keys[half:], g.calls[half:]}, answers, waits)
}

// arrays returns the lists and the items of keys.
func arrays(keys []key) (lists, items pq.StringArray) {
	lists, items = make(pq.StringArray, len(keys)), make(pq.StringArray, len(keys))
	for i, k := range keys {
		lists[i], items[i] = k.list, k.item
	}
	return lists, items
}
