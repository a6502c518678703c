package postgres

import "sync"

// gate lets one caller per key through at a time. The others wait without a
// connection, so that a crowd on one slow key leaves the pool to everybody else.
type gate struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the caller of that key has left
}

func newGate() *gate { return &gate{busy: make(map[string]chan struct{})} }

// ahead is closed when the caller who is inside with the key leaves; nil when
// nobody is.
func (g *gate) ahead(key string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy[key]
}

// enter returns what to call when leaving; nil when somebody is inside.
func (g *gate) enter(key string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[key] != nil {
		return nil
	}
	left := make(chan struct{})
	g.busy[key] = left
	return func() {
		g.mu.Lock()
		delete(g.busy, key)
		g.mu.Unlock()
		close(left)
	}
}
