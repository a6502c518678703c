package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// activeCounters are few enough that clients meet on one, and many enough that a lost
// group does not spoil a key's history.
const activeCounters = 12

var _ = register(services.Counts, kind{
	open: newCounts, writes: "update counts.count_values", singles: true,
	mutants: []Mutant{
		mutant("bug_autocommit", "a statement is sent again by the pool", windowReplies, linearizable),
		mutant("bug_unordered", "a batch without ordered locks", windowNone, deadlocks),
		mutant("bug_textparams", "no binary_parameters behind pgbouncer", windowPooler, linearizable, "answers"),
	},
})

// counts increases, decreases and reads counters.
type counts struct {
	site

	api  *api.Client
	keys *keys
}

func newCounts(s site) (clients, error) { //nolint:ireturn // one of kinds
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	w := &counts{site: s, api: client}
	w.keys = newKeys(s.prefix, activeCounters, w.create)
	return w, err
}

// step changes or reads a random counter, or now and then many at once: what comes at
// once to a replica is changed as a group, and groups of several replicas meet.
func (w *counts) step(ctx context.Context, client int, random *rand.Rand) {
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
	key := w.keys.pick(ctx, random)
	if key == nil {
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

func (w *counts) do(ctx context.Context, client int, key *key, delta int64) services.Outcome {
	op := w.record(client, key.name, history.CountInput{Delta: delta}, func() (any, error) {
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
	return op.Outcome
}

// create creates a counter, which may be there when an answer was lost.
func (w *counts) create(ctx context.Context, name string) (int32, error) {
	_, err := w.api.Create(ctx, name, 0)
	if rowlock.OutcomeUnknown(err) {
		_, err = w.api.Get(ctx, name)
	}
	if errors.Is(err, api.ErrExists) {
		err = nil
	}
	return 1, err
}

// probe reads a counter, which need not be there.
func (w *counts) probe(ctx context.Context) error {
	_, err := w.api.Get(ctx, w.keys.first())
	if errors.Is(err, api.ErrNotFound) {
		return nil
	}
	return err
}

// settle reads every counter.
func (w *counts) settle(ctx context.Context) error {
	return w.keys.each(func(key *key) services.Outcome { return w.do(ctx, -1, key, 0) })
}

// lock locks the row of a counter.
func (w *counts) lock(context.Context) fault.Lock {
	const statement = `SELECT FROM counts.count_values WHERE item_id = '%s' FOR UPDATE`
	return fault.Lock{Statement: fmt.Sprintf(statement, w.keys.first())}
}

// check demands that every counter is linearizable, and that the sums of the changes
// agree with the values in the database.
func (w *counts) check(ctx context.Context, f *findings) {
	keys, groups := history.ByKey(f.ops)
	low, high := make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		for _, op := range groups[key] {
			in, _ := op.Input.(history.CountInput)
			if op.Outcome == history.OK || op.Outcome == history.Unknown && in.Delta < 0 {
				low[i] += in.Delta
			}
			if op.Outcome == history.OK || op.Outcome == history.Unknown && in.Delta > 0 {
				high[i] += in.Delta
			}
		}
	}
	wrong := f.count(ctx, `SELECT count(*) FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS want (id, low, high)
		LEFT JOIN counts.count_values ON item_id = id WHERE (current_value BETWEEN low AND high) IS NOT true`,
		pq.Array(keys), pq.Array(low), pq.Array(high))
	f.histories(history.Counts())
	f.answers(history.Refused)
	f.addf("sums", wrong == 0, "%d counters: %d outside acknowledged..acknowledged+unknown", len(keys), wrong)
}
