package attempttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// row is an item in memory.
type row struct {
	attempts int64
	claim    attempt.Claim
	until    time.Time
}

func (r *row) free(now time.Time) bool { return !r.until.After(now) }

func (r *row) heldBy(claim attempt.Claim, now time.Time) bool {
	return r.claim == claim && r.until.After(now)
}

// Memory is a repository in the process's memory. It passes Exercise, so that
// port tests on it do not rest on a lie.
type Memory struct {
	mu     sync.Mutex
	lists  map[attempt.List]map[attempt.Item]*row
	claims int
}

var _ attempt.Repository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory { return &Memory{lists: make(map[attempt.List]map[attempt.Item]*row)} }

// locked runs f on the items of a list, unless ctx has ended.
func locked[T any](ctx context.Context, m *Memory, list attempt.List, f func(map[attempt.Item]*row) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var zero T
		return zero, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists[list] == nil {
		m.lists[list] = make(map[attempt.Item]*row)
	}
	return f(m.lists[list])
}

// Get implements attempt.Repository.
func (m *Memory) Get(ctx context.Context, list attempt.List, item attempt.Item) (int64, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (int64, error) {
		if r := rows[item]; r != nil {
			return r.attempts, nil
		}
		return 0, attempt.ErrNotFound
	})
}

// Exists implements attempt.Repository.
func (m *Memory) Exists(ctx context.Context, list attempt.List) (bool, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (bool, error) { return len(rows) > 0, nil })
}

// One implements attempt.Repository.
func (m *Memory) One(
	ctx context.Context, change attempt.Change, list attempt.List, item attempt.Item, claim attempt.Claim,
) (int64, error) {
	return m.Many(ctx, change, list, attempt.ItemsOf(item), claim)
}

// Many implements attempt.Repository.
func (m *Memory) Many(
	ctx context.Context, change attempt.Change, list attempt.List, items *attempt.Items, claim attempt.Claim,
) (int64, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (n int64, err error) {
		now, seen := time.Now(), map[attempt.Item]bool{}
		for item := range items.All() {
			r := rows[item]
			if seen[item] || (r == nil) != (change == attempt.Add) || r != nil && claim != "" && !r.heldBy(claim, now) {
				continue
			}
			seen[item] = true
			n++
			switch change {
			case attempt.Add:
				rows[item] = &row{}
			case attempt.Increment:
				r.attempts += min(1, math.MaxInt64-r.attempts)
			case attempt.Delete:
				delete(rows, item)
			}
		}
		return n, nil
	})
}

// Stage implements attempt.Repository.
func (m *Memory) Stage(
	ctx context.Context, change attempt.Change, list attempt.List, next func() (*attempt.Items, error), claim attempt.Claim,
) (int64, error) {
	var all attempt.Items
	for {
		items, err := next()
		if errors.Is(err, io.EOF) {
			return m.Many(ctx, change, list, &all, claim)
		}
		if err != nil {
			return 0, err
		}
		for item := range items.All() {
			all.Add([]byte(item))
		}
	}
}

// sorted are the items that f chooses, in the order of their bytes.
func sorted(rows map[attempt.Item]*row, f func(attempt.Item, *row) bool) []attempt.Item {
	var items []attempt.Item
	for item, r := range rows {
		if f(item, r) {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

func entriesOf(rows map[attempt.Item]*row, items []attempt.Item, count int) []attempt.Entry {
	var all []attempt.Entry
	for _, item := range items[:min(count, len(items))] {
		all = append(all, attempt.Entry{Item: item, Attempts: rows[item].attempts})
	}
	return all
}

// Page implements attempt.Repository.
func (m *Memory) Page(ctx context.Context, list attempt.List, after string, count int) ([]attempt.Entry, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) ([]attempt.Entry, error) {
		return entriesOf(rows, sorted(rows, func(item attempt.Item, _ *row) bool { return string(item) > after }), count), nil
	})
}

// Progress implements attempt.Repository.
func (m *Memory) Progress(ctx context.Context, list attempt.List) (attempt.Progress, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (p attempt.Progress, err error) {
		now := time.Now()
		for _, r := range rows {
			p.Items++
			if !r.free(now) {
				p.Claimed++
			}
			p.Attempts[min(r.attempts, int64(len(p.Attempts)-1))]++
		}
		return p, nil
	})
}

// Claim implements attempt.Repository.
func (m *Memory) Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (attempt.Lease, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (attempt.Lease, error) {
		now := time.Now()
		free := sorted(rows, func(_ attempt.Item, r *row) bool { return r.free(now) })
		if len(free) == 0 {
			return attempt.Lease{}, nil
		}
		m.claims++
		l := attempt.Lease{
			Claim: attempt.Claim(fmt.Sprintf("00000000-0000-4000-8000-%012x", m.claims)), Until: now.Add(lease).UTC(),
			Entries: entriesOf(rows, free, count),
		}
		for _, e := range l.Entries {
			rows[e.Item].claim, rows[e.Item].until = l.Claim, l.Until
		}
		return l, nil
	})
}

// held runs f on the rows that a claim holds and counts them.
func (m *Memory) held(ctx context.Context, list attempt.List, claim attempt.Claim, f func(*row)) (int64, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (n int64, err error) {
		now := time.Now()
		for _, r := range rows {
			if r.heldBy(claim, now) {
				f(r)
				n++
			}
		}
		return n, nil
	})
}

// Extend implements attempt.Repository.
func (m *Memory) Extend(ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration) (int64, error) {
	return m.held(ctx, list, claim, func(r *row) { r.until = time.Now().Add(lease) })
}

// Release implements attempt.Repository.
func (m *Memory) Release(ctx context.Context, list attempt.List, claim attempt.Claim) (int64, error) {
	return m.held(ctx, list, claim, func(r *row) { r.claim, r.until = "", time.Time{} })
}

// Abandon implements attempt.Repository.
func (m *Memory) Abandon(ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim) (int64, error) {
	return locked(ctx, m, list, func(rows map[attempt.Item]*row) (n int64, err error) {
		now := time.Now()
		for item, r := range rows {
			if r.attempts >= attempts && (claim == "" || r.heldBy(claim, now)) {
				delete(rows, item)
				n++
			}
		}
		return n, nil
	})
}
