package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// add is a request of the tests: n is added to the row named key.
type add struct {
	id  int
	key string
	n   int
}

var (
	errMissing = errors.New("no such row")
	errBad     = errors.New("this request makes its statement fail")
)

// table is a double of a database table with row locks. It records how often each
// request was applied.
type table struct {
	mu      sync.Mutex
	rows    map[string]int
	held    map[string]bool
	applied map[int]int
	groups  [][]add
	freed   chan struct{} // closed and replaced whenever a row is freed
	before  func(group []add)
	panics  atomic.Bool // each statement
}

func newTable(keys ...string) *table {
	t := &table{
		rows: make(map[string]int), held: make(map[string]bool),
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
		t.held[key] = true
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
	close(t.freed)
	t.freed = make(chan struct{})
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
	for {
		t.mu.Lock()
		locked := t.locked(group)
		if len(locked) == 0 || pass.SkipLocked {
			answers, err := t.apply(group, locked)
			t.mu.Unlock()
			return answers, err
		}
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

func (t *table) locked(group []add) map[string]bool {
	locked := make(map[string]bool)
	for _, q := range group {
		if t.held[q.key] {
			locked[q.key] = true
		}
	}
	return locked
}

func (t *table) apply(group []add, locked map[string]bool) ([]coalesce.Answer[int], error) {
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
		switch {
		case locked[q.key]:
			answers[i].Locked = true
		case !exists:
			answers[i].Err = errMissing
		default:
			t.rows[q.key] += q.n
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
		Size:   func(q add) int { return len(q.key) },
		Run:    t.run,
		Limits: coalesce.Limits{LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second},
	}
}
