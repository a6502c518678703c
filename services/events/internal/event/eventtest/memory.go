package eventtest

import (
	"context"
	"sync"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Memory is a store in memory. The zero value is empty.
type Memory struct {
	mu     sync.Mutex
	events []memoryEvent // the event with id i is at i-1
}

type memoryEvent struct {
	value          string
	pending, taken bool
}

var _ Store = (*Memory)(nil)

// Add implements event.Repository.
func (m *Memory) Add(ctx context.Context, n event.New) (event.ID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, memoryEvent{value: n.Value, pending: n.Pending})
	return event.ID(len(m.events)), nil
}

// Find implements event.Repository.
func (m *Memory) Find(_ context.Context, id event.ID) (event.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > event.ID(len(m.events)) {
		return event.Event{}, event.ErrNotFound
	}
	e := m.events[id-1]
	return event.Event{ID: id, Value: e.value, Pending: e.pending}, nil
}

// Count implements event.Repository.
func (m *Memory) Count(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.events)), nil
}

// Work implements event.Queue.
func (m *Memory) Work(ctx context.Context, limit int, value func(event.ID) string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	claimed := m.claim(limit)
	defer m.release(claimed)
	values := make([]string, len(claimed))
	for i, id := range claimed {
		values[i] = value(id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, id := range claimed {
		m.events[id-1] = memoryEvent{value: values[i], taken: true}
	}
	return len(claimed), nil
}

func (m *Memory) claim(limit int) (claimed []event.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.events {
		if e := &m.events[i]; e.pending && !e.taken && len(claimed) < limit {
			e.taken = true
			claimed = append(claimed, event.ID(i+1))
		}
	}
	return claimed
}

func (m *Memory) release(claimed []event.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range claimed {
		m.events[id-1].taken = false
	}
}

// Backlog implements event.Queue.
func (m *Memory) Backlog(context.Context) (event.Backlog, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b event.Backlog
	for i, e := range m.events {
		if !e.pending {
			continue
		}
		if b.Pending == 0 {
			b.Distance = int64(len(m.events) - i)
		}
		b.Pending++
	}
	return b, nil
}
