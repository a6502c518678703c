package prove

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// keyTimeout is what the checker may take for one key. The doses keep keys far
	// below it: at most maxOps operations, maxUnknown of them without an outcome.
	keyTimeout = 10 * time.Second
	maxOps     = 300
	maxUnknown = 4
	// checkers run at once; the machine has nothing else to do then.
	checkers = 2
)

// linearizable is the name of its check.
const linearizable = "linearizable"

// linear is what the checker found.
type linear struct {
	keys, illegal, undecided int
	// first describes the first key that is not linearizable or not decided.
	first string
	// picture is the file with the checker's picture of it; "" when there is none.
	picture string
}

// checkLinear holds every key's operations against the model. Operations that
// were refused or surely not applied are left out unless keep says otherwise: a
// model that explains refusals keeps them. pictures is where a violation is drawn.
func checkLinear(model porcupine.Model, ops []Op, keep func(Op) bool, pictures string) *linear {
	keys, groups := byKey(ops)
	found := &linear{keys: len(keys)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan string)
	for range checkers {
		wg.Go(func() {
			for key := range queue {
				history := operations(groups[key], keep)
				verdict := porcupine.CheckOperationsTimeout(model, history, keyTimeout)
				if verdict == porcupine.Ok {
					continue
				}
				mu.Lock()
				found.note(model, key, verdict, history, pictures)
				mu.Unlock()
			}
		})
	}
	for _, key := range keys {
		queue <- key
	}
	close(queue)
	wg.Wait()
	return found
}

func (l *linear) note(model porcupine.Model, key string, verdict porcupine.CheckResult, history []porcupine.Operation, pictures string) {
	if verdict == porcupine.Illegal {
		l.illegal++
	} else {
		l.undecided++
	}
	if l.first != "" {
		return
	}
	l.first = fmt.Sprintf("%s: %d operations, %s", key, len(history), verdict)
	if pictures == "" {
		return
	}
	_, info := porcupine.CheckOperationsVerbose(model, history, keyTimeout)
	path := filepath.Join(pictures, fmt.Sprintf("violation-%x.html", key))
	if err := os.MkdirAll(pictures, 0o755); err == nil && porcupine.VisualizePath(model, info, path) == nil {
		l.picture = path
	}
}

// operations is the checker's form of a key's history. An unknown operation gets
// a client of its own, because it has not ended.
func operations(ops []Op, keep func(Op) bool) []porcupine.Operation {
	history := make([]porcupine.Operation, 0, len(ops))
	own := 0
	for _, op := range ops {
		if op.Outcome == Unknown {
			own++
			history = append(history, porcupine.Operation{
				ClientId: 1000 + own, Input: op.Input, Call: int64(op.Call), Output: op, Return: int64(never),
			})
			continue
		}
		if op.Outcome == OK || keep != nil && keep(op) {
			history = append(history, porcupine.Operation{
				ClientId: op.Client, Input: op.Input, Call: int64(op.Call), Output: op, Return: int64(op.Return),
			})
		}
	}
	return history
}

// check is the linear verdict as a line of the report.
func (l *linear) check() Check {
	c := Check{Name: linearizable, OK: l.illegal == 0 && l.undecided == 0, Picture: l.picture}
	c.Detail = fmt.Sprintf("%d keys: illegal %d, unknown %d", l.keys, l.illegal, l.undecided)
	if l.first != "" {
		c.Detail += "; first: " + l.first
	}
	return c
}
