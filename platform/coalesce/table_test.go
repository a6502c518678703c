package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// add is a request of the tests: n is added to the row named key and to those named also.
type add struct {
	id   int
	key  string
	n    int
	also []string
}

func (q add) keys() []string { return append([]string{q.key}, q.also...) }

var (
	errMissing = errors.New("no such row")
	errBad     = errors.New("this request makes its statement fail")
)

// table is a double of a database table with row locks. It records how often each
// request was applied.
type table struct {
	mu      sync.Mutex
	rows    map[string]int
	held    map[string]any // by whom: another transaction, or a statement that waits for a later row
	applied map[int]int
	groups  [][]add
	freed   chan struct{} // closed and replaced whenever a row is freed
	before  func(group []add)
	panics  atomic.Bool // each statement
}

func newTable(keys ...string) *table {
	t := &table{
		rows: make(map[string]int), held: make(map[string]any),
		applied: make(map[int]int), freed: make(chan struct{}),
	}
	for _, k := range keys {
		t.rows[k] = 0
	}
	return t
}

// gate makes each statement wait until the returned channel is closed.
func (t *table) gate() chan struct{} {
	gate := make(chan struct{})
	t.before = func([]add) { <-gate }
	return gate
}

func (t *table) hold(keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		t.held[key] = "another transaction"
	}
}

func (t *table) remove(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, key)
}

func (t *table) free(keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		delete(t.held, key)
	}
	t.signal()
}

func (t *table) signal() {
	close(t.freed)
	t.freed = make(chan struct{})
}

// lock marks the rows that a statement has locked before the first one that it waits for. The caller holds t.mu.
func (t *table) lock(statement any, group []add) {
	var keys []string
	for _, q := range group {
		keys = append(keys, q.keys()...)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if by := t.held[key]; by != nil && by != statement {
			return
		}
		t.held[key] = statement
	}
}

// unlock frees the rows of a statement.
func (t *table) unlock(statement any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.held, func(_ string, by any) bool { return by == statement })
	t.signal()
}

// await is a coalesce.Config.Await.
func (t *table) await(ctx context.Context, pass coalesce.Pass, keys []string) ([]string, error) {
	timeout := time.After(pass.Wait)
	for {
		t.mu.Lock()
		free := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return t.held[key] != nil })
		freed := t.freed
		t.mu.Unlock()
		if len(free) > 0 || pass.SkipLocked {
			return free, nil
		}
		select {
		case <-freed:
		case <-timeout:
			return nil, coalesce.ErrLockWait
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run is a coalesce.Config.Run: all or nothing per statement, like the real one.
func (t *table) run(ctx context.Context, pass coalesce.Pass, group []add) ([]coalesce.Answer[int], error) {
	if t.before != nil {
		t.before(group)
	}
	if t.panics.Load() {
		panic("boom")
	}
	timeout := time.After(pass.Wait)
	defer t.unlock(&timeout)
	for {
		t.mu.Lock()
		locked := t.locked(&timeout, group)
		if len(locked) == 0 || pass.SkipLocked {
			answers, err := t.apply(group, locked)
			t.mu.Unlock()
			return answers, err
		}
		t.lock(&timeout, group)
		freed := t.freed
		t.mu.Unlock()
		select {
		case <-freed:
		case <-timeout:
			return nil, fmt.Errorf("55P03: %w", coalesce.ErrLockWait)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// locked returns which of a request's keys another than the statement has locked, for those of which one is.
func (t *table) locked(statement any, group []add) map[int]int {
	locked := make(map[int]int)
	for _, q := range group {
		at := slices.IndexFunc(q.keys(), func(key string) bool { return t.held[key] != nil && t.held[key] != statement })
		if at >= 0 {
			locked[q.id] = at
		}
	}
	return locked
}

func (t *table) apply(group []add, locked map[int]int) ([]coalesce.Answer[int], error) {
	for _, q := range group {
		if q.n < 0 {
			if len(group) > 1 {
				return nil, coalesce.ErrSplit
			}
			return nil, errBad
		}
	}
	t.groups = append(t.groups, append([]add(nil), group...))
	answers := make([]coalesce.Answer[int], len(group))
	for i, q := range group {
		_, exists := t.rows[q.key]
		at, isLocked := locked[q.id]
		switch {
		case isLocked:
			answers[i].Locked, answers[i].At = true, at
		case !exists:
			answers[i].Err = errMissing
		default:
			for _, key := range q.keys() {
				t.rows[key] += q.n
			}
			t.applied[q.id]++
			answers[i].Value = t.rows[q.key]
		}
	}
	return answers, nil
}

func (t *table) value(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[key]
}

func (t *table) timesApplied(id int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied[id]
}

func (t *table) groupSizes() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	sizes := make([]int, len(t.groups))
	for i, g := range t.groups {
		sizes[i] = len(g)
	}
	return sizes
}

// config is a coalescer's configuration over the table, with the real bounds.
func (t *table) config() coalesce.Config[string, add, int] {
	return coalesce.Config[string, add, int]{
		Name:   "test",
		Key:    func(q add) string { return q.key },
		Others: func(q add) []string { return q.also },
		Await:  t.await,
		Size:   func(q add) int { return len(q.key) },
		Weight: func(q add) int { return 1 + len(q.also) },
		Run:    t.run,
		Limits: coalesce.Limits{LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second},
	}
}
