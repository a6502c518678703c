package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// activeCounters are few enough that clients meet on one, and many enough that a lost
// group does not spoil a key's history.
const activeCounters = 12

// counts is the workload of the counters: increase, decrease, read.
type counts struct {
	caller  *Caller
	history *history.History
	keys    *keys
}

func newCounts(c *Caller, h *history.History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &counts{caller: c, history: h, keys: newKeys(prefix, activeCounters)}
}

const (
	countsPath  = "/api/v1/counts/"
	countsInner = "/api/v1/internal/counts"
)

// Step changes or reads a random counter, or now and then many at once: what comes at
// once to a replica is changed as a group, and groups of several replicas meet.
func (w *counts) Step(ctx context.Context, client int, random *rand.Rand) {
	const crowd, oneIn = 2 * activeCounters, 20
	if random.IntN(oneIn) > 0 {
		w.one(ctx, client, random)
		return
	}
	seed := random.Uint64()
	together(crowd, client, func(client int) { w.one(ctx, client, newRandom(seed, uint64(client))) })
}

// one changes or reads a random counter.
func (w *counts) one(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(random)
	if w.create(ctx, key) == 0 {
		return
	}
	delta := 1 + random.Int64N(1000)
	switch random.IntN(4) {
	case 0:
		delta = -delta
	case 1:
		delta = 0
	}
	w.do(ctx, client, key, delta)
}

func (w *counts) do(ctx context.Context, client int, key *key, delta int64) Reply {
	op := history.Op{Client: client, Key: key.name, Input: history.CountInput{Delta: delta}, Call: w.history.Now()}
	var r Reply
	switch {
	case delta > 0:
		r = w.caller.Send(ctx, http.MethodPost, countsPath+key.name+"/increase", fmt.Sprintf(`{"amount":%d}`, delta), nil)
	case delta < 0:
		r = w.caller.Send(ctx, http.MethodPost, countsPath+key.name+"/decrease", fmt.Sprintf(`{"amount":%d}`, -delta), nil)
	default:
		r = w.caller.Send(ctx, http.MethodGet, countsInner+"/"+key.name, "", nil)
		if r.Outcome == history.Unknown {
			r.Outcome = history.NotApplied // a read changes nothing
		}
	}
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	if r.Outcome == history.OK {
		value, err := countValue(r.Body)
		if err != nil {
			op.Outcome, op.Code = history.Unknown, badBody
		}
		op.Output = value
	}
	w.keys.note(key, op.Outcome)
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

// create creates a counter once and returns 0 when that failed: the model starts with a
// counter that is there.
func (w *counts) create(ctx context.Context, key *key) int32 {
	return key.ensure(func() (id int32, again bool) {
		r := w.caller.Send(ctx, http.MethodPost, countsInner, fmt.Sprintf(`{"itemId":%q}`, key.name), nil)
		if r.Outcome == history.OK || r.Code == "COUNT_EXISTS" {
			return 1, false
		}
		if r.Outcome == history.NotApplied {
			return 0, true
		}
		if r = w.caller.Send(ctx, http.MethodGet, countsInner+"/"+key.name, "", nil); r.Outcome == history.OK {
			return 1, false
		}
		return 0, false
	})
}

// Probe reads a counter, which need not be there.
func (w *counts) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, countsInner+"/"+w.keys.first(), "", nil)
	if r.Outcome == history.OK || r.Code == "COUNT_NOT_FOUND" {
		return nil
	}
	return fmt.Errorf("a read is answered %d %s", r.Status, r.Code)
}

// Settle reads every counter.
func (w *counts) Settle(ctx context.Context) error {
	for _, key := range w.keys.all() {
		if key.id == 0 {
			continue
		}
		if r := w.do(ctx, -1, key, 0); r.Outcome != history.OK {
			return fmt.Errorf("the last read of %s is answered %d %s", key.name, r.Status, r.Code)
		}
	}
	return nil
}

// Lock locks the row of a counter.
func (w *counts) Lock(context.Context) fault.Lock {
	return fault.Lock{Statement: fmt.Sprintf(`SELECT FROM counts.count_values WHERE item_id = '%s' FOR UPDATE`, w.keys.first())}
}

// Check demands that every counter is linearizable, and that the sums of the changes
// agree with the values in the database.
func (w *counts) Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error) {
	ops := w.history.Ops()
	var rows []struct {
		ID    string `db:"item_id"`
		Value int64  `db:"current_value"`
	}
	if err := db.SelectContext(ctx, &rows, `SELECT item_id, current_value FROM counts.count_values`); err != nil {
		return Findings{}, fmt.Errorf("read the counters: %w", err)
	}
	values := make(map[string]int64, len(rows))
	for _, row := range rows {
		values[row.ID] = row.Value
	}
	low, high := map[string]int64{}, map[string]int64{}
	for _, op := range ops {
		in, _ := op.Input.(history.CountInput)
		switch op.Outcome {
		case history.OK:
			low[op.Key] += in.Delta
			high[op.Key] += in.Delta
		case history.Unknown:
			low[op.Key] += min(in.Delta, 0)
			high[op.Key] += max(in.Delta, 0)
		case history.Refused, history.NotApplied:
		}
	}
	wrong := 0
	for key := range low {
		if v, there := values[key]; !there || v < low[key] || v > high[key] {
			wrong++
		}
	}
	return Findings{Checks: []Check{
		checkHistory(history.Counts(), ops, pictures),
		checkAnswers(ops, history.Refused),
		check("sums", wrong == 0, "%d counters: %d outside acknowledged..acknowledged+unknown", len(low), wrong),
	}}, nil
}
