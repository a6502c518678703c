package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// activeCounters are few enough that clients meet on one, and many enough that a
// lost group does not spoil a key's history.
const activeCounters = 12

// counts is the workload of the counters: increase, decrease, read.
type counts struct {
	caller  *Caller
	history *History
	keys    *keys
	made    firsts[error] // counters that were created, or not
}

func newCounts(c *Caller, h *History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &counts{caller: c, history: h, keys: newKeys(prefix, activeCounters)}
}

// countInput is an operation on a counter: a change by Delta, or a read when it is 0.
type countInput struct{ Delta int64 }

const (
	countsPath   = "/api/v1/counts/"
	countsInner  = "/api/v1/internal/counts"
	largestDelta = 1000
)

// Step changes or reads a random counter, or now and then many at once: what comes
// at once to a replica is changed as a group, and groups of several replicas meet.
func (w *counts) Step(ctx context.Context, client int, random *rand.Rand) {
	const crowd, oneIn = 2 * activeCounters, 20
	if random.IntN(oneIn) > 0 {
		w.one(ctx, client, random)
		return
	}
	var all sync.WaitGroup
	for i := range crowd {
		own := newRandom(random.Uint64())
		all.Go(func() { w.one(ctx, client+(i+1)*clientsAtMost, own) })
	}
	all.Wait()
}

// clientsAtMost is more than the clients of a run: beyond it are numbers for those
// that one client sends at once.
const clientsAtMost = 100

// one changes or reads a random counter.
func (w *counts) one(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(random)
	if w.create(ctx, key) != nil {
		return
	}
	delta := 1 + random.Int64N(largestDelta)
	switch random.IntN(4) {
	case 0:
		delta = -delta
	case 1:
		delta = 0
	}
	w.do(ctx, client, key, delta)
}

func (w *counts) do(ctx context.Context, client int, key string, delta int64) Reply {
	op := Op{Client: client, Key: key, Input: countInput{delta}, Call: w.history.Now()}
	var r Reply
	switch {
	case delta > 0:
		r = w.caller.Send(ctx, http.MethodPost, countsPath+key+"/increase", fmt.Sprintf(`{"amount":%d}`, delta), nil)
	case delta < 0:
		r = w.caller.Send(ctx, http.MethodPost, countsPath+key+"/decrease", fmt.Sprintf(`{"amount":%d}`, -delta), nil)
	default:
		r = w.caller.Send(ctx, http.MethodGet, countsInner+"/"+key, "", nil)
		if r.Outcome == Unknown {
			r.Outcome = NotApplied // a read changes nothing
		}
	}
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	if r.Outcome == OK {
		value, err := countValue(r.Body)
		if err != nil {
			op.Outcome, op.Code = Unknown, badBody
		}
		op.Output = value
	}
	if op.Outcome == Unknown {
		w.keys.unknown(key)
	}
	w.history.Add(op)
	return r
}

func countValue(body []byte) (int64, error) {
	var doc struct {
		Value        *int64 `json:"value"`
		CurrentValue *int64 `json:"currentValue"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return 0, fmt.Errorf("the body %q: %w", body, err)
	}
	switch {
	case doc.Value != nil:
		return *doc.Value, nil
	case doc.CurrentValue != nil:
		return *doc.CurrentValue, nil
	default:
		return 0, fmt.Errorf("the body %q has no value", body)
	}
}

// create makes a counter once. A key whose creation failed is not worked on: the
// model begins with a counter that is there.
func (w *counts) create(ctx context.Context, key string) error {
	return w.made.get(key, func() (err error, final bool) {
		r := w.caller.Send(ctx, http.MethodPost, countsInner, fmt.Sprintf(`{"itemId":%q}`, key), nil)
		if r.Status == http.StatusCreated || r.Code == "COUNT_EXISTS" {
			return nil, true
		}
		err = fmt.Errorf("create %s: %d %s", key, r.Status, r.Code)
		if ctx.Err() == nil && r.Outcome == NotApplied {
			return err, false // another client may try again
		}
		if r = w.caller.Send(ctx, http.MethodGet, countsInner+"/"+key, "", nil); r.Outcome == OK {
			err = nil
		}
		return err, true
	})
}

// Probe reads a counter, which need not be there.
func (w *counts) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, countsInner+"/"+w.keys.first(), "", nil)
	if r.Outcome == OK || r.Code == "COUNT_NOT_FOUND" {
		return nil
	}
	return fmt.Errorf("a read is answered %d %s", r.Status, r.Code)
}

// Settle reads every counter.
func (w *counts) Settle(ctx context.Context) error {
	for key, err := range w.made.all() {
		if err != nil {
			continue
		}
		if r := w.do(ctx, -1, key, 0); r.Outcome != OK {
			return fmt.Errorf("the last read of %s is answered %d %s", key, r.Status, r.Code)
		}
	}
	return nil
}

// Hold locks the row of a counter.
func (w *counts) Hold(context.Context) Holding {
	return Holding{Statement: fmt.Sprintf(`SELECT FROM counts.count_values WHERE item_id = '%s' FOR UPDATE`, w.keys.first())}
}

// Signs has none.
func (*counts) Signs() map[string]int { return nil }

// countModel is a counter that begins at 0. An unknown change may have been made
// with any answer; an unknown read says nothing.
func countModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			value, _ := state.(int64)
			in, _ := input.(countInput)
			op, _ := output.(Op)
			value += in.Delta
			if op.Outcome == Unknown {
				return true, value
			}
			return op.Output == value, value
		},
		DescribeOperation: func(input, output any) string {
			in, _ := input.(countInput)
			op, _ := output.(Op)
			if op.Outcome == Unknown {
				return fmt.Sprintf("%+d -> ? (%s)", in.Delta, op.Code)
			}
			return fmt.Sprintf("%+d -> %v", in.Delta, op.Output)
		},
	}
}

// Check demands that every counter is linearizable and that the sums add up in
// the database itself.
func (w *counts) Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error) {
	ops := w.history.Ops()
	values, err := readCounts(ctx, db)
	if err != nil {
		return nil, err
	}
	low, high := map[string]int64{}, map[string]int64{}
	for _, op := range ops {
		in, _ := op.Input.(countInput)
		switch op.Outcome {
		case OK:
			low[op.Key] += in.Delta
			high[op.Key] += in.Delta
		case Unknown:
			low[op.Key] += min(in.Delta, 0)
			high[op.Key] += max(in.Delta, 0)
		case Refused, NotApplied:
		}
	}
	wrong := 0
	for key := range low {
		if v, there := values[key]; !there || v < low[key] || v > high[key] {
			wrong++
		}
	}
	return []Check{
		checkLinear(countModel(), ops, nil, pictures).check(),
		unexpected(ops, Refused),
		check("sums", wrong == 0, "%d counters: %d outside acknowledged..acknowledged+unknown", len(low), wrong),
	}, nil
}

func readCounts(ctx context.Context, db *sqldb.DB) (map[string]int64, error) {
	var rows []struct {
		ID    string `db:"item_id"`
		Value int64  `db:"current_value"`
	}
	if err := db.SelectContext(ctx, &rows, `SELECT item_id, current_value FROM counts.count_values`); err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	values := make(map[string]int64, len(rows))
	for _, row := range rows {
		values[row.ID] = row.Value
	}
	return values, nil
}

// unexpected demands that no operation ended in a way, or with a code, that the
// clients' requests give no cause for.
func unexpected(ops []Op, never ...Outcome) Check {
	codes := map[string]int{}
	for _, op := range ops {
		bad := op.Code == "INTERNAL" || op.Code == noDocument || op.Code == badBody
		for _, o := range never {
			bad = bad || op.Outcome == o
		}
		if bad {
			codes[op.Code]++
		}
	}
	return check("answers", len(codes) == 0, "%d operations, answers without cause: %v", len(ops), codes)
}
