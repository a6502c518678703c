package countingtest

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Memory keeps counts in the process's memory. It passes Exercise, so that tests of the ports may rely on it.
type Memory struct {
	mu     sync.Mutex
	values map[counting.ItemID]counting.CountValue
	keys   map[keyID]answer
}

var _ counting.CountValueRepository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory {
	return &Memory{values: make(map[counting.ItemID]counting.CountValue), keys: make(map[keyID]answer)}
}

// Create implements counting.CountValueRepository.
func (m *Memory) Create(ctx context.Context, id counting.ItemID, initial int64) (counting.CountValue, error) {
	if err := ctx.Err(); err != nil {
		return counting.CountValue{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[id]; ok {
		return counting.CountValue{}, counting.ErrExists
	}
	return m.put(id, initial), nil
}

// put stores a value under the current time. The caller holds m.mu.
func (m *Memory) put(id counting.ItemID, value int64) counting.CountValue {
	v := counting.CountValue{ItemID: id, Current: value, UpdatedAt: time.Now().UTC()}
	m.values[id] = v
	return v
}

// Find implements counting.CountValueRepository.
func (m *Memory) Find(ctx context.Context, id counting.ItemID) (counting.CountValue, error) {
	if err := ctx.Err(); err != nil {
		return counting.CountValue{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[id]
	if !ok {
		return counting.CountValue{}, counting.ErrNotFound
	}
	return v, nil
}

// FindMany implements counting.CountValueRepository.
func (m *Memory) FindMany(ctx context.Context, ids []counting.ItemID) ([]counting.CountValue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []counting.CountValue
	for _, id := range ids {
		if v, ok := m.values[id]; ok {
			found = append(found, v)
		}
	}
	return found, nil
}

// Page implements counting.CountValueRepository.
func (m *Memory) Page(ctx context.Context, prefix, after string, limit int) ([]counting.CountValue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []counting.CountValue
	for _, id := range slices.Sorted(maps.Keys(m.values)) {
		if len(page) < limit && string(id) > after && strings.HasPrefix(string(id), prefix) {
			page = append(page, m.values[id])
		}
	}
	return page, nil
}

// Apply implements counting.CountValueRepository.
func (m *Memory) Apply(ctx context.Context, update counting.Update) (counting.Result, error) {
	a, replayed, err := m.once(ctx, update.Key, func() answer {
		values, err := m.apply(update)
		return answer{values: values, err: err}
	})
	if err != nil {
		return counting.Result{}, err
	}
	return counting.Result{Values: slices.Clone(a.values), Replayed: replayed}, a.err
}

// apply applies all changes or none. The caller holds m.mu.
func (m *Memory) apply(update counting.Update) ([]int64, error) {
	refused := func(i int, err error) error {
		if len(update.Changes) == 1 {
			return err
		}
		return &counting.ChangeError{Index: i, Err: err}
	}
	for i, c := range update.Changes {
		if _, ok := m.values[c.ItemID]; !ok && !update.Create {
			return nil, refused(i, counting.ErrNotFound)
		}
	}
	values := make([]int64, len(update.Changes))
	current := make(map[counting.ItemID]int64)
	for i, c := range update.Changes {
		value, ok := current[c.ItemID]
		if !ok {
			value = m.values[c.ItemID].Current
		}
		if c.Delta > 0 && value > math.MaxInt64-c.Delta || c.Delta < 0 && value < math.MinInt64-c.Delta {
			return nil, refused(i, counting.ErrOverflow)
		}
		values[i] = value + c.Delta
		current[c.ItemID] = values[i]
	}
	for id, value := range current {
		m.put(id, value)
	}
	return values, nil
}

// Set implements counting.CountValueRepository.
func (m *Memory) Set(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (counting.CountValue, bool, error) {
	a, replayed, err := m.once(ctx, key, func() answer {
		if _, ok := m.values[id]; !ok {
			return answer{err: counting.ErrNotFound}
		}
		return answer{set: m.put(id, value)}
	})
	if err != nil {
		return counting.CountValue{}, false, err
	}
	return a.set, replayed, a.err
}

// keyID names a key. The first caller's key of a value has no caller in it, and neither has one without a caller.
type keyID struct{ caller, value string }

// answer holds what a change was answered, for the repeats of its key.
type answer struct {
	owner       string // the caller
	fingerprint [16]byte
	values      []int64             // of Apply
	set         counting.CountValue // of Set
	err         error
}

// once runs change, or returns what an earlier change with the key was answered. Keys live forever.
func (m *Memory) once(ctx context.Context, key counting.Key, change func() answer) (answer, bool, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if key.Value == "" {
		return change(), false, nil
	}
	id := keyID{value: key.Value}
	first, taken := m.keys[id]
	if taken && key.Caller != "" && first.owner != "" && first.owner != key.Caller {
		id.caller = key.Caller
		first, taken = m.keys[id]
	}
	if taken {
		if first.fingerprint != key.Fingerprint {
			return answer{}, false, counting.ErrKeyConflict
		}
		return first, true, nil
	}
	a := change()
	a.owner, a.fingerprint = key.Caller, key.Fingerprint
	m.keys[id] = a
	return a, false, nil
}

// Delete implements counting.CountValueRepository.
func (m *Memory) Delete(ctx context.Context, id counting.ItemID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[id]; !ok {
		return counting.ErrNotFound
	}
	delete(m.values, id)
	return nil
}
