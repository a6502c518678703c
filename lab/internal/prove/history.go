package prove

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Outcome is what a client knows of an operation when it has returned.
type Outcome uint8

// The outcomes; see the package's comment.
const (
	OK Outcome = iota
	Refused
	NotApplied
	Unknown
)

// String is the outcome's name in reports.
func (o Outcome) String() string {
	return [...]string{"ok", "refused", "not applied", "unknown"}[o]
}

// Op is one operation of one client.
type Op struct {
	Client int
	// Key names what the operation is about; keys have nothing to do with each other.
	Key     string
	Input   any
	Output  any
	Outcome Outcome
	// Code is the stable code of an answer that is no success; "lost" when there was no answer.
	Code string
	// Call and Return are times since the start of the run.
	Call, Return time.Duration
}

// never is the return of an operation of which nobody knows whether it was done: it
// may take effect at any time, so also after everything else.
const never = time.Duration(math.MaxInt64)

// History records the operations of one service in one window.
type History struct {
	start time.Time

	mu  sync.Mutex
	ops []Op
}

// NewHistory returns an empty history whose times count from start.
func NewHistory(start time.Time) *History { return &History{start: start} }

// Now is the time of the history.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// At is a moment of the clock on the wall as a time of the history.
func (h *History) At(wall time.Time) time.Duration { return wall.Sub(h.start.Round(0)) }

// Add records an operation that has returned.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Ops returns a copy of what was recorded, in the order of the calls.
func (h *History) Ops() []Op {
	h.mu.Lock()
	ops := slices.Clone(h.ops)
	h.mu.Unlock()
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
	return ops
}

// Count is how many operations ended so.
func (h *History) Count(o Outcome) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, op := range h.ops {
		if op.Outcome == o {
			n++
		}
	}
	return n
}

// byKey groups operations, the keys in the order of their first call.
func byKey(ops []Op) (keys []string, groups map[string][]Op) {
	groups = map[string][]Op{}
	for _, op := range ops {
		if _, known := groups[op.Key]; !known {
			keys = append(keys, op.Key)
		}
		groups[op.Key] = append(groups[op.Key], op)
	}
	return keys, groups
}
