package postgres

import (
	"context"
	"database/sql"
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

type answer = coalesce.Answer[int64]

// grouped runs calls of one kind in groups.
type grouped interface {
	Do(ctx context.Context, k key) (int64, error)
	Close(ctx context.Context) error
}

// coalescers are the group commits of calls for single items, one for each kind of call.
type coalescers struct {
	db         *sqldb.DB
	contention *contention.Metrics
	shards     *sqldb.Shards // nil on one server
	gets       grouped
	changes    [attempt.Delete + 1]grouped // by attempt.Change
}

func newCoalescers(db *sqldb.DB, o Options) (*coalescers, error) {
	c := &coalescers{db: db, contention: o.Contention}
	if db.Cluster() == sqldb.ClusterCitus {
		c.shards = sqldb.NewShards(db, "iidy.lists", listsKnown)
	}
	open := func(name string, run func(context.Context, coalesce.Pass, []key) ([]answer, error)) (grouped, error) {
		cfg := coalesce.Config[key, key, int64]{
			Name: name, Key: func(k key) key { return k }, Size: key.size, Run: run, Limits: o.Limits,
		}
		if c.shards == nil {
			return coalesce.New(cfg)
		}
		cfg.InFlight = 1
		lanes, err := coalesce.NewSharded(cfg, placesOnShards(o))
		return onShards{lanes, c.shards}, err
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
	query := getGroupSQL
	if c.shards != nil {
		query = getOnShardSQL
	}
	if err := c.db.GetUnqueued(ctx, &attempts, query, lists, items); err != nil {
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
	if change == attempt.Add && p.SkipLocked {
		// An item that another session is adding or deleting is invisible, and cannot be skipped.
		return coalesce.Halve(calls, func(wait time.Duration, part []key) ([]answer, error) {
			return c.runChanges(ctx, change, coalesce.Pass{Wait: wait}, part)
		}), nil
	}
	answers := make([]answer, len(calls))
	return answers, c.apply(ctx, change, p, newGroup(calls), answers)
}

// group is a group of calls by item.
type group struct {
	keys  []key
	calls map[key][]int // indexes of the calls, in order of arrival
}

func newGroup(calls []key) group {
	g := group{make([]key, 0, len(calls)), make(map[key][]int, len(calls))}
	for i, k := range calls {
		if _, seen := g.calls[k]; !seen {
			g.keys = append(g.keys, k)
		}
		g.calls[k] = append(g.calls[k], i)
	}
	return g
}

// statement returns the group's statement of a change and its arguments.
func (g group) statement(change attempt.Change, p coalesce.Pass) (query string, args []any) {
	statements, wait := itemStatementsOf(change), sqldb.Milliseconds(p.Wait)
	if len(g.keys) == 1 && !p.SkipLocked {
		k := g.keys[0]
		args = []any{k.list, k.item, wait}
		if change == attempt.Increment {
			args = append(args, len(g.calls[k]))
		}
		return statements.one, args
	}
	lists, items := arrays(g.keys)
	args = []any{lists, items, wait}
	if change == attempt.Increment || p.SkipLocked {
		times := make(pq.Int64Array, len(g.keys))
		for n, k := range g.keys {
			times[n] = int64(len(g.calls[k]))
		}
		args = append(args, times)
	}
	if p.SkipLocked {
		return statements.free, args
	}
	return statements.group, args
}

// changed is an item that a group's statement changed, or found locked.
type changed struct {
	key

	locked bool
}

// result is what a group's statement returns.
type result struct {
	items  []changed
	waited float64 // for the item that was waited for longest, in seconds
}

// read adds the rows of a statement, unless that failed.
func (r *result) read(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	return r.readAll(rows)
}

func (r *result) readAll(rows *sql.Rows) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var item changed
		var seconds float64
		if err := rows.Scan(&item.list, &item.item, &item.locked, &seconds); err != nil {
			return err
		}
		r.items, r.waited = append(r.items, item), max(r.waited, seconds)
	}
	return rows.Err()
}

// apply runs the group's statement and sets the answers to its calls.
func (c *coalescers) apply(
	ctx context.Context, change attempt.Change, p coalesce.Pass, g group, answers []answer,
) error {
	var found result
	var err error
	if c.shards != nil {
		err = c.changeOnShard(ctx, change, p, g, &found)
	} else {
		query, args := g.statement(change, p)
		err = c.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			found = result{items: make([]changed, 0, len(g.keys))} // the statement may be run again
			return found.read(conn.QueryContext(ctx, query, args...))
		})
	}
	if err = coalesce.Classify(err); errors.Is(err, coalesce.ErrLockWait) {
		c.contention.Waited(contention.InDatabase, p.Wait)
	}
	if err != nil {
		return err
	}
	if !p.SkipLocked && len(found.items) > 0 {
		c.contention.Waited(contention.InDatabase, time.Duration(found.waited*float64(time.Second)))
	}
	for _, item := range found.items {
		for n, i := range g.calls[item.key] {
			answers[i].Locked = item.locked
			if !item.locked && (n == 0 || change == attempt.Increment) { // the first call added or deleted it
				answers[i].Value = 1
			}
		}
	}
	return nil
}

// arrays returns the lists and the items of keys.
func arrays(keys []key) (lists, items pq.StringArray) {
	lists, items = make(pq.StringArray, len(keys)), make(pq.StringArray, len(keys))
	for i, k := range keys {
		lists[i], items[i] = k.list, k.item
	}
	return lists, items
}
