// Package history records what clients observed of a service and checks it against
// sequential models.
//
// A client that has sent an operation knows one of four things about it, its [targets.Outcome]. The models take clients
// at their word: an operation that was not applied is left out of the history, so that one that was applied
// nevertheless leaves a value that no order of the operations explains.
//
// Every key's operations are checked on their own by porcupine
// (https://github.com/anishathalye/porcupine; Herlihy and Wing, "Linearizability",
// 1990).
package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

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
	// Aside says that the request is no separate operation: another one with its key is recorded, or none has an effect.
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

// The checker's time grows exponentially with the operations of unknown outcome, so
// clients retire a key that has seen MaxOps operations or MaxUnknown unknown outcomes.
const (
	MaxOps     = 300
	MaxUnknown = 4
	keyTimeout = 10 * time.Second // for one key; longer counts as a failure
	checkers   = 2                // keys that are checked at once
)

// ClockSlack is how far the database's clock may be off the clients'.
const ClockSlack = 20 * time.Millisecond

// NewModel returns the sequential specification of one key with the initial state init.
// step returns the states that the key may be in after an operation: none when the answer
// contradicts the state, several when the outcome is unknown or up to chance. It is called
// for refused operations too, and never for those that were not applied.
func NewModel[State comparable, Input any](
	init State, step func(s State, in Input, op Op) []State,
) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{init} },
		Step: func(state, input, output any) []any {
			s, _ := state.(State)
			in, _ := input.(Input)
			op, _ := output.(Op)
			states := step(s, in, op)
			after := make([]any, len(states))
			for i := range states {
				after[i] = states[i]
			}
			return after
		},
		DescribeOperation: func(input, output any) string {
			op, _ := output.(Op)
			return fmt.Sprintf("%+v -> %s %s %+v", input, op.Outcome, op.Code, op.Output)
		},
	}
	return nondeterministic.ToModel()
}

// When returns the one state if possible, and none otherwise.
func When[State any](possible bool, state State) []State {
	if !possible {
		return nil
	}
	return []State{state}
}

// Check checks every key's operations against the model. It describes what it found, and
// draws the first violation into the folder pictures unless that is "". A key that is not
// decided in time fails the check.
func Check(model porcupine.Model, ops []Op, pictures string) (ok bool, detail, picture string) {
	groups := ByKey(ops)
	keys := slices.Sorted(maps.Keys(groups))
	results := make([]porcupine.CheckResult, len(keys))
	var group errgroup.Group
	group.SetLimit(checkers)
	for i, key := range keys {
		group.Go(func() error {
			results[i] = porcupine.CheckOperationsTimeout(model, operations(groups[key]), keyTimeout)
			return nil
		})
	}
	_ = group.Wait() // no check returns an error

	count := map[porcupine.CheckResult]int{}
	first := ""
	for i, result := range results {
		count[result]++
		if result != porcupine.Ok && first == "" {
			first = fmt.Sprintf("; first: %s: %d operations, %s", keys[i], len(groups[keys[i]]), result)
			picture = draw(model, keys[i], groups[keys[i]], pictures)
		}
	}

	detail = fmt.Sprintf("%d keys: illegal %d, undecided %d%s",
		len(keys), count[porcupine.Illegal], count[porcupine.Unknown], first)
	return count[porcupine.Ok] == len(keys), detail, picture
}

// draw returns the file with porcupine's picture of a key's history, "" when it has none.
func draw(model porcupine.Model, key string, ops []Op, folder string) string {
	if folder == "" {
		return ""
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations(ops), keyTimeout)
	path := filepath.Join(folder, fmt.Sprintf("violation-%x.html", key))
	if os.MkdirAll(folder, 0o755) != nil || porcupine.VisualizePath(model, info, path) != nil {
		return ""
	}
	return path
}

// operations converts a key's history for the checker. An operation of unknown outcome gets its own client, because it
// has not ended.
func operations(ops []Op) []porcupine.Operation {
	converted := make([]porcupine.Operation, 0, len(ops))
	rows := map[int]int{} // of the picture, by client
	for i, op := range ops {
		client, end := op.Client, op.Return
		if op.Outcome == targets.NotApplied || op.Aside {
			continue
		}
		if op.Outcome == targets.Unknown {
			client, end = math.MinInt+i, Never
		}
		if _, known := rows[client]; !known {
			rows[client] = len(rows)
		}
		converted = append(converted, porcupine.Operation{
			ClientId: rows[client], Input: op.Input, Call: int64(cmp.Or(op.First, op.Call)), Output: op, Return: int64(end),
		})
	}
	return converted
}
