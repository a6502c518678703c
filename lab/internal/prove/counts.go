package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/workload"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// activeCounters are few enough that clients meet on one, and many enough that a lost
// group does not spoil a key's history.
const activeCounters = 12

// counts increases, decreases and reads counters.
type counts struct {
	api     *api.Client
	history *history.History
	keys    *keys
}

func newCounts(s site) (Workload, error) { //nolint:ireturn // one of kinds
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	return &counts{api: client, history: s.history, keys: newKeys(s.prefix, activeCounters)}, err
}

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
	if !key.ensure(func() (int32, error) { return w.create(ctx, key.name) }) {
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

func (w *counts) do(ctx context.Context, client int, key *key, delta int64) history.Op {
	op := history.Op{Client: client, Key: key.name, Input: history.CountInput{Delta: delta}}
	op = send(w.history, op, func() (any, error) {
		switch {
		case delta > 0:
			return w.api.Increase(ctx, key.name, delta)
		case delta < 0:
			return w.api.Decrease(ctx, key.name, -delta)
		default:
			count, err := w.api.Get(ctx, key.name)
			return count.Value, err
		}
	})
	w.keys.note(key, op.Outcome)
	w.history.Add(op)
	return op
}

// create creates a counter, which may be there when an answer was lost.
func (w *counts) create(ctx context.Context, name string) (int32, error) {
	_, err := w.api.Create(ctx, name, 0)
	if rowlock.OutcomeUnknown(err) {
		_, err = w.api.Get(ctx, name)
	}
	if errors.Is(err, rowlock.ErrCountExists) {
		err = nil
	}
	return 1, err
}

// Probe reads a counter, which need not be there.
func (w *counts) Probe(ctx context.Context) error {
	_, err := w.api.Get(ctx, w.keys.first())
	if errors.Is(err, rowlock.ErrCountNotFound) {
		return nil
	}
	return err
}

// Settle reads every counter.
func (w *counts) Settle(ctx context.Context) error {
	return w.keys.each(func(key *key) workload.Outcome {
		if key.id == 0 {
			return history.OK // it was not created
		}
		return w.do(ctx, -1, key, 0).Outcome
	})
}

// Lock locks the row of a counter.
func (w *counts) Lock(context.Context) fault.Lock {
	const statement = `SELECT FROM counts.count_values WHERE item_id = '%s' FOR UPDATE`
	return fault.Lock{Statement: fmt.Sprintf(statement, w.keys.first())}
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
	low, high := map[string]int64{}, map[string]int64{}
	for _, op := range ops {
		in, _ := op.Input.(history.CountInput)
		low[op.Key] += 0 // a counter of reads alone is compared too
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
	right := 0
	for _, row := range rows {
		if least, known := low[row.ID]; known && row.Value >= least && row.Value <= high[row.ID] {
			right++
		}
	}
	return Findings{Checks: []Check{
		checkHistory(history.Counts(), ops, pictures),
		checkAnswers(ops, history.Refused),
		check("sums", right == len(low),
			"%d counters: %d outside acknowledged..acknowledged+unknown", len(low), len(low)-right),
	}}, nil
}
