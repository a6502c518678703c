package postgres

import "sync"

// maxHints limits the lists that a replica keeps hints for; one more empties the map.
const maxHints = 1024

// hints remembers facts about lists that make a statement cheaper. The statement is
// correct even if a hint is wrong. The zero value is empty.
type hints[T any] struct {
	mu    sync.Mutex
	lists map[string]T
}

func (h *hints[T]) get(list string) (T, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hint, ok := h.lists[list]
	return hint, ok
}

func (h *hints[T]) put(list string, hint T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lists == nil || len(h.lists) >= maxHints {
		h.lists = make(map[string]T)
	}
	h.lists[list] = hint
}

func (h *hints[T]) forget(list string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lists, list)
}
