package pottest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Memory is a pot.Repository that forgets.
type Memory struct {
	mu    sync.Mutex
	pots  map[pot.ID]pot.Pot
	names map[string]pot.ID
}

var _ pot.Repository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory {
	return &Memory{pots: make(map[pot.ID]pot.Pot), names: make(map[string]pot.ID)}
}

// Create implements pot.Repository.
func (m *Memory) Create(ctx context.Context, name string, maxCoins int32) (pot.Pot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return pot.Pot{}, ctx.Err()
	}
	if _, there := m.names[name]; there {
		return pot.Pot{}, pot.ErrExists
	}
	id := pot.ID(len(m.pots) + 1)
	p := pot.Pot{ID: id, Name: name, MaxCoins: maxCoins, CreateTime: time.Now().UTC().Truncate(time.Microsecond)}
	m.pots[id], m.names[name] = p, id
	return p, nil
}

// Find implements pot.Repository.
func (m *Memory) Find(_ context.Context, id pot.ID) (pot.Pot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, there := m.pots[id]
	if !there {
		return pot.Pot{}, pot.ErrNotFound
	}
	return p, nil
}

// FindByName implements pot.Repository.
func (m *Memory) FindByName(ctx context.Context, name string) (pot.Pot, error) {
	m.mu.Lock()
	id := m.names[name]
	m.mu.Unlock()
	return m.Find(ctx, id)
}

// List implements pot.Repository.
func (m *Memory) List(_ context.Context, limit, offset int64) ([]pot.Pot, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.Sorted(maps.Keys(m.pots))
	total := int64(len(ids))
	var list []pot.Pot
	for _, id := range ids[min(offset, total):min(offset+limit, total)] {
		list = append(list, m.pots[id])
	}
	return list, total, nil
}

// Change implements pot.Repository.
func (m *Memory) Change(ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, there := m.pots[id]
	if !there {
		return pot.ErrNotFound
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	after, err := change(p)
	if err != nil {
		return err
	}
	contents := maps.Clone(p.Contents)
	if contents == nil {
		contents = make(pot.Contents)
	}
	maps.Copy(contents, after)
	p.Contents = contents
	m.pots[id] = p
	return nil
}
