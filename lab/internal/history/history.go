// Package history records what clients observed of a service and checks it against
// sequential models.
//
// A client that has sent an operation knows one of four things about it, its
// [targets.Outcome]. The models take clients at their word: an operation that was not
// applied is left out of the history, so that one that was applied all the same
// leaves a value that no order of the operations explains.
//
// Every key's operations are checked on their own by porcupine
// (https://github.com/anishathalye/porcupine; Herlihy and Wing, "Linearizability",
// 1990).
package history

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Op records one operation of one client.
type Op struct {
	Client int
	// Key names what the operation is about; operations on different keys are independent.
	Key     string
	Input   any
	Output  any
	Outcome targets.Outcome
	// Code is the error's code, "" for OK.
	Code string
	// Call and Return are times since the start of the run, of one request.
	Call, Return time.Duration
	// First is the call of the first request of an operation that several requests ask for, by one idempotency key; 0 for
	// one request.
	First time.Duration
	// Aside says that the request is no operation of its own: another one with its key is recorded, or none has an effect.
	Aside bool
}

// Never is the return of an operation that may take effect at any later time.
const Never = time.Duration(math.MaxInt64)

// History records the operations of one service in one fault window.
type History struct {
	start time.Time

	mu  sync.Mutex
	ops []Op
}

// New returns an empty history whose times count from start.
func New(start time.Time) *History { return &History{start: start} }

// Now returns the time since the start.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// At converts a wall clock time, such as one that a server sent, to the history's time.
func (h *History) At(wall time.Time) time.Duration { return wall.Sub(h.start.Round(0)) }

// Add records an operation that has returned.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Ops returns a copy of the operations, ordered by their calls.
func (h *History) Ops() []Op {
	h.mu.Lock()
	ops := slices.Clone(h.ops)
	h.mu.Unlock()
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
	return ops
}

// ByKey groups operations.
func ByKey(ops []Op) map[string][]Op {
	groups := map[string][]Op{}
	for _, op := range ops {
		groups[op.Key] = append(groups[op.Key], op)
	}
	return groups
}
