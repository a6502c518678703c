package history

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"
)

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

// Model specifies sequentially what may happen to one key.
type Model struct {
	porcupine.Model

	// Refusals says that the model explains refused operations too; otherwise they are
	// left out of the check.
	Refusals bool
}

// newModel returns a model with the initial state init. step returns the states that
// the key may be in after the operation: none when the answer contradicts the state,
// several when the outcome is unknown or up to chance.
func newModel[State comparable, Input any](init State, step func(s State, in Input, op Op) []State) Model {
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
	return Model{Model: nondeterministic.ToModel()}
}

// when returns the one state if possible, and none otherwise.
func when[State any](possible bool, state State) []State {
	if !possible {
		return nil
	}
	return []State{state}
}

// Check checks every key's operations against the model. It describes what it found, and
// draws the first violation into the folder pictures unless that is "". A key that is not
// decided in time fails the check.
func Check(model Model, ops []Op, pictures string) (ok bool, detail, picture string) {
	keys, groups := ByKey(ops)
	results := make([]porcupine.CheckResult, len(keys))
	var group errgroup.Group
	group.SetLimit(checkers)
	for i, key := range keys {
		group.Go(func() error {
			results[i] = porcupine.CheckOperationsTimeout(model.Model, model.operations(groups[key]), keyTimeout)
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
			picture = model.draw(keys[i], groups[keys[i]], pictures)
		}
	}
	detail = fmt.Sprintf("%d keys: illegal %d, undecided %d%s",
		len(keys), count[porcupine.Illegal], count[porcupine.Unknown], first)
	return count[porcupine.Ok] == len(keys), detail, picture
}

// draw returns the file with porcupine's picture of a key's history, "" when it has none.
func (m Model) draw(key string, ops []Op, folder string) string {
	if folder == "" {
		return ""
	}
	_, info := porcupine.CheckOperationsVerbose(m.Model, m.operations(ops), keyTimeout)
	path := filepath.Join(folder, fmt.Sprintf("violation-%x.html", key))
	if os.MkdirAll(folder, 0o755) != nil || porcupine.VisualizePath(m.Model, info, path) != nil {
		return ""
	}
	return path
}

// operations converts a key's history for the checker. An operation of unknown outcome
// gets a client of its own, because it has not ended.
func (m Model) operations(ops []Op) []porcupine.Operation {
	converted := make([]porcupine.Operation, 0, len(ops))
	rows := map[int]int{} // of the picture, by client
	for i, op := range ops {
		client, end := op.Client, op.Return
		switch {
		case op.Outcome == Unknown:
			client, end = math.MinInt+i, Never
		case op.Outcome == OK, op.Outcome == Refused && m.Refusals:
		default:
			continue
		}
		if _, known := rows[client]; !known {
			rows[client] = len(rows)
		}
		converted = append(converted, porcupine.Operation{
			ClientId: rows[client], Input: op.Input, Call: int64(op.Call), Output: op, Return: int64(end),
		})
	}
	return converted
}
