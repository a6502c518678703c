package countingtest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Memory keeps counts in the process's memory. It passes Exercise, so that tests of the ports may rely on it.
type Memory struct {
	mu     sync.Mutex
	values map[counting.ItemID]counting.CountValue
}

var _ counting.CountValueRepository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory {
	return &Memory{values: make(map[counting.ItemID]counting.CountValue)}
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

// Add implements counting.CountValueRepository.
func (m *Memory) Add(ctx context.Context, id counting.ItemID, delta int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[id]
	if !ok {
		return 0, counting.ErrNotFound
	}
	if delta > 0 && v.Current > math.MaxInt64-delta || delta < 0 && v.Current < math.MinInt64-delta {
		return 0, counting.ErrOverflow
	}
	return m.put(id, v.Current+delta).Current, nil
}

// Set implements counting.CountValueRepository.
func (m *Memory) Set(ctx context.Context, id counting.ItemID, value int64) (counting.CountValue, error) {
	if err := ctx.Err(); err != nil {
		return counting.CountValue{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[id]; !ok {
		return counting.CountValue{}, counting.ErrNotFound
	}
	return m.put(id, value), nil
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
