package countingtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Memory keeps counts in memory. It passes Exercise, so that tests of the ports may rely on it; running the suite on it
// tests counting.Decide without a database.
type Memory struct {
	// Err, if not nil, is what the methods return.
	Err error

	mu     sync.Mutex
	values map[counting.ItemID]counting.CountValue
	keys   map[counting.KeyID]counting.Taken // never expire
}

var _ counting.CountValueRepository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory {
	return &Memory{
		values: make(map[counting.ItemID]counting.CountValue), keys: make(map[counting.KeyID]counting.Taken),
	}
}

// Change implements counting.CountValueRepository.
func (m *Memory) Change(ctx context.Context, r counting.Request) (counting.Answer, error) {
	if err := cmp.Or(m.Err, ctx.Err()); err != nil {
		return counting.Answer{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	state := counting.State{Values: make(map[counting.ItemID]int64), Keys: m.keys, Now: time.Now().UTC()}
	for _, c := range r.Changes {
		if v, ok := m.values[c.ItemID]; ok {
			state.Values[c.ItemID] = v.Current
		}
	}
	d := counting.Decide([]counting.Request{r}, state)

	for _, w := range d.Writes {
		if w.Kind == counting.Remove {
			delete(m.values, w.ItemID)
			continue
		}
		m.values[w.ItemID] = counting.CountValue{ItemID: w.ItemID, Current: w.Value, UpdatedAt: state.Now}
	}
	maps.Copy(m.keys, d.Keys)
	return d.Answers[0], d.Answers[0].Err()
}

// Find implements counting.CountValueRepository.
func (m *Memory) Find(ctx context.Context, id counting.ItemID) (counting.CountValue, error) {
	if err := cmp.Or(m.Err, ctx.Err()); err != nil {
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
	if err := cmp.Or(m.Err, ctx.Err()); err != nil {
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
	if err := cmp.Or(m.Err, ctx.Err()); err != nil {
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
