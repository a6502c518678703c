package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// activeCounters are few enough that clients meet on one, and many enough that a lost
// group does not spoil a key's history.
const activeCounters = 12

var _ = register(services.Counts, kind{
	open: newCounts, writes: "update counts.count_values", singles: true, attack: attackCounts,
	signs: map[string][]string{windowHostile: {string(fault.LockedKey)}},
	mutants: []Mutant{
		mutant("bug_autocommit", "a statement is sent again by the pool", windowReplies, linearizable),
		mutant("bug_unordered", "a batch without ordered locks", windowNone, deadlocks),
		mutant("bug_textparams", "no binary_parameters behind pgbouncer", windowPooler, linearizable, "answers"),
	},
})

// countModel returns the model of a counter that begins at 0. The input is the change, 0
// for a read; the output is the counter's value. Both are int64.
func countModel() porcupine.Model {
	return history.NewModel(int64(0), func(value, delta int64, op history.Op) []int64 {
		if op.Outcome == services.Refused {
			return []int64{value}
		}
		value += delta
		return history.When(op.Outcome == services.Unknown || op.Output == value, value)
	})
}

// counts increases, decreases and reads counters.
type counts struct {
	*keys

	api *api.Client
}

func newCounts(_ context.Context, s site) (clients, error) { //nolint:ireturn // one of kinds
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	return &counts{api: client, keys: newKeys(s, activeCounters, func(ctx context.Context, name string) (int32, error) {
		_, err := client.Create(ctx, name, 0)
		return 0, err
	})}, err
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
	together(crowd, client, func(client int) { w.one(ctx, client, newRandom(seed, client)) })
}

// one changes or reads a random counter.
func (w *counts) one(ctx context.Context, client int, random *rand.Rand) {
	key := w.pick(ctx, random)
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
	w.change(ctx, client, key, delta)
}

func (w *counts) change(ctx context.Context, client int, key *key, delta int64) services.Outcome {
	return w.do(client, key, delta, func() (any, error) {
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
}

// probe reads a counter, which need not be there.
func (w *counts) probe(ctx context.Context) error {
	_, err := w.api.GetMany(ctx, w.first())
	return err
}

// settle reads every counter.
func (w *counts) settle(ctx context.Context) error {
	return w.each(func(key *key) services.Outcome { return w.change(ctx, settling, key, 0) })
}

// lock locks the row of a counter.
func (w *counts) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	return lockCounter(ctx, tx, w.first(), hold)
}

func lockCounter(ctx context.Context, tx *sqlx.Tx, id string, hold fault.Hold) error {
	return hold(tx.ExecContext(ctx, `SELECT FROM counts.count_values WHERE item_id = $1 FOR UPDATE`, id))
}

// attackCounts has a counter that is locked, and reads 500 counters at once.
func attackCounts(ctx context.Context, v *victim, s site) error {
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	if err != nil {
		return err
	}
	const internal, path, most = "/api/v1/internal/counts", "/api/v1/counts/", 500
	ids := make([]string, most)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", s.prefix, i)
	}
	locked, crossed := ids[0], ids[1]
	change := path + crossed + "/increase"
	v.Change, v.Begun = hostile.Post(change, jsonType, `{"amount":1}`, 0), hostile.Post(change, jsonType, `{`, missing)
	v.Upload = hostile.Post(internal, jsonType, `{"itemId":"`, longBody)
	v.Large = []string{hostile.Get(internal + "?" + url.Values{"itemIds": ids}.Encode())}
	v.Bad = []string{
		hostile.Post(path+"a%00b/increase", jsonType, `{}`, 0), hostile.Post(change, jsonType, `{"amount":`, 0),
		hostile.Post(internal, jsonType, `{"itemId":"a\u0000b"}`, 0),
	}
	v.lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		return lockCounter(ctx, tx, locked, hold)
	}
	v.call = func(ctx context.Context) (int64, error) {
		_, err := client.Increase(ctx, locked, 1)
		return 1, err
	}
	const value = `SELECT current_value FROM counts.count_values WHERE item_id = `
	v.stored, v.crossed = value+pq.QuoteLiteral(locked), value+pq.QuoteLiteral(crossed)
	return local.Execute(ctx, s.db, `INSERT INTO counts.count_values (item_id)
		SELECT '`+s.prefix+`-' || n FROM generate_series(0, 499) n`)
}

// check demands that every counter is linearizable, and that the database holds what was
// read at the end.
func (w *counts) check(ctx context.Context, f *findings) {
	var names []string
	var values []int64
	for _, op := range f.ops {
		if value, read := op.Output.(int64); read && op.Client == settling {
			names, values = append(names, op.Key), append(values, value)
		}
	}
	wrong := f.count(ctx, `SELECT count(*) FROM unnest($1::text[], $2::bigint[]) AS read (id, value)
		LEFT JOIN counts.count_values ON item_id = id WHERE current_value IS DISTINCT FROM value`,
		pq.Array(names), pq.Array(values))
	f.histories(countModel())
	f.answers()
	f.addf("sums", wrong == 0, "%d counters: %d differ from the database", len(names), wrong)
}
