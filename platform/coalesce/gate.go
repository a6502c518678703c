package coalesce

import (
	"sync"
	"time"
)

// longestTurn is how long a group keeps the gate. One that waits for a lock delays those of the others for no longer.
const longestTurn = 10 * time.Millisecond

// Gate lets coalescers whose callers go from one to the next, without a pause, take turns: one of them runs a group at
// a time, and waits for the callers of all of them. Without it each soon has a part of the callers, and while it runs a
// small group the others form small groups, too. With it the callers pass all together. The slow lanes take no turns.
// NewGate returns one.
type Gate struct {
	turn chan struct{} // holds an element while a turn lasts

	mu    sync.Mutex
	crowd crowd
}

// NewGate returns a gate at which no coalescer has a turn.
func NewGate() *Gate { return &Gate{turn: make(chan struct{}, 1)} }

// enter waits for a turn and returns the function that ends it. On a coalescer's own gate there are no turns.
func (g *Gate) enter() (leave func()) {
	if g.turn == nil {
		return func() {}
	}
	g.turn <- struct{}{}
	return sync.OnceFunc(func() { <-g.turn })
}

// bound ends a turn that lasts too long. The returned function is called when it is over.
func (g *Gate) bound(leave func()) (over func()) {
	if g.turn == nil {
		return leave
	}
	timer := time.AfterFunc(longestTurn, leave)
	return func() {
		timer.Stop()
		leave()
	}
}
