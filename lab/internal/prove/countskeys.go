package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// sameAnswers names the check of what a key promises its callers.
	sameAnswers = "same answers"
	// insistence is the time for which a caller repeats a request with a key, longer than any fault lasts.
	insistence = 30 * time.Second
	// replayable is how many of the latest answers are asked for again.
	replayable = 64
)

// countAnswer holds what a request was answered: the value after each amount.
type countAnswer struct {
	values   []int64
	replayed bool
}

// keyed is a request with a key, and its answer.
type keyed struct {
	request countRequest
	answer  history.Op
}

func answered(op history.Op) bool { return op.Outcome == targets.OK || op.Outcome == targets.Refused }

// same reports whether both requests got the same answer.
func same(a, b history.Op) bool {
	x, _ := a.Output.(countAnswer)
	y, _ := b.Output.(countAnswer)
	return a.Code == b.Code && slices.Equal(x.values, y.values)
}

// fresh reports whether the answer belongs to the request that was applied.
func fresh(op history.Op) bool {
	a, ok := op.Output.(countAnswer)
	return ok && !a.replayed
}

// blamef counts an answer that is wrong.
func (w *counts) blamef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong[fmt.Sprintf(format, args...)]++
}

// insist has callers send the request at once, each again and again until it is answered. Together they are one
// operation: it takes effect before the first of their answers, and all must be the same.
func (w *counts) insist(ctx context.Context, client int, r countRequest, callers int) {
	if r.first == 0 {
		r.first = w.history.Now()
	}
	all := make([]history.Op, callers)
	var sent sync.WaitGroup
	for i := range all {
		sent.Go(func() { all[i] = w.untilAnswered(ctx, client, r) })
	}
	sent.Wait()

	all = slices.DeleteFunc(all, func(op history.Op) bool { return !answered(op) })
	if len(all) == 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open = append(w.open, r)
		return
	}

	slices.SortFunc(all, func(a, b history.Op) int { return int(a.Return - b.Return) })
	first := all[0]
	first.First = r.first
	w.record(r, first)
	applied := 0
	for i, op := range all {
		if fresh(op) {
			applied++
		}
		if i > 0 {
			op.Aside = true
			w.history.Add(op)
		}
		if !same(op, first) {
			w.blamef("two answers at once")
		}
	}

	if applied > 1 {
		w.blamef("applied %d times", applied)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent = append(w.recent, keyed{r, first})
	w.recent = w.recent[max(0, len(w.recent)-replayable):]
}

// untilAnswered sends the request until it is answered, or for long, and returns the last result.
func (w *counts) untilAnswered(ctx context.Context, client int, r countRequest) history.Op {
	for begin := time.Now(); ; {
		op := w.ask(ctx, client, r)
		if answered(op) || time.Since(begin) > insistence {
			return op
		}
		op.Aside = true
		w.history.Add(op)
		fault.Wait(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
	}
}

// repeat sends a request with a key again that was answered, or another one with its key; false when there is none.
func (w *counts) repeat(ctx context.Context, client int, random *rand.Rand) bool {
	w.mu.Lock()
	if len(w.recent) == 0 {
		w.mu.Unlock()
		return false
	}

	one := w.recent[random.IntN(len(w.recent))]
	w.mu.Unlock()
	r := one.request
	const oneIn = 4
	conflict := random.IntN(oneIn) == 0
	if conflict {
		r.amounts = slices.Clone(r.amounts)
		r.amounts[0] *= 2
		if r.amounts[0] == 0 {
			r.amounts[0] = 1
		}
	}

	op := w.ask(ctx, client, r)
	op.Aside = true
	w.history.Add(op)
	switch {
	case !answered(op):
	case conflict && op.Code != string(api.ErrKeyConflict):
		w.blamef("another request with the key of one: %q", op.Code)
	case !conflict && (fresh(op) || !same(op, one.answer)):
		w.blamef("a repeat is answered otherwise")
	case op.Outcome == targets.OK:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.again++
	}
	return true
}
