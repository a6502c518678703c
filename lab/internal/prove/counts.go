package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// activeCounters are few enough that clients meet on one, and many enough that a lost
// group does not spoil a key's history.
const activeCounters = 12

// replays counts repeats of answered requests.
const replays = "answer replayed"

var _ = register(targets.Counts, kind{
	open:   openCounts(true),
	writes: []string{"attempt = $2, answers", "attempt = $7, answers"}, // not the look-up of a slot
	// Each client sends a key three times at once, and all may stand at the slowest replica.
	inFlight: 96,
	attack:   attackCounts,
	citus:    &onCitus{open: openCounts(false), writes: []string{"update counts.count_values"}},
	changes: func(op history.Op) bool {
		in, _ := op.Input.(countChange)
		return len(in.amounts) > 0 && !op.Aside
	},
	signs: map[string][]string{
		windowNone: {replays}, windowBackends: {resolved}, windowReplies: {resolved}, windowCommits: {resolved},
		windowHostile: {string(fault.LockedKey)}, windowCitusReplies: {resolved},
	},
	mutants: []Mutant{
		mutant("slotlast", "a slot is written last and not locked first", windowReplies, linearizable, "sums"),
		mutant("unordered", "a batch without ordered locks", windowNone, deadlocks),
		mutant("textparams", "no binary_parameters behind pgbouncer", windowPooler, linearizable, "answers"),
		mutant("keylookup", "a key is looked up before the counts are locked", windowNone, linearizable, sameAnswers),
		mutant("errorproves", "an error of Citus' coordinator proves that nothing was applied",
			windowCitusReplies, linearizable, "sums"),
		mutant("currentvalue", "a replay answers the current value", windowNone, linearizable, sameAnswers),
	},
})

// countChange is what one request asks of one counter: to add the amounts one after the other, or to have the value;
// neither is a read.
type countChange struct {
	amounts []int64
	set     bool // the one amount is the value
}

// countModel returns the model of a counter that begins at 0. The output is its value after each amount, or as it is.
func countModel() porcupine.Model {
	return history.NewModel(int64(0), func(value int64, in countChange, op history.Op) []int64 {
		if op.Outcome == targets.Refused {
			return []int64{value}
		}
		values, _ := op.Output.([]int64)
		answers := func(i int) bool {
			return op.Outcome == targets.Unknown || i < len(values) && values[i] == value
		}

		if len(in.amounts) == 0 {
			return history.When(answers(0), value)
		}
		for i, amount := range in.amounts {
			value += amount
			if in.set {
				value = amount
			}
			if !answers(i) {
				return nil
			}
		}
		return []int64{value}
	})
}

// counts changes and reads counters.
type counts struct {
	*keys

	sendsKeys bool // and changes of several counters, beside reads and changes of one

	api *api.Client

	mu      sync.Mutex
	made    int            // idempotency keys
	created []*key         // counters that requests were to create
	recent  []keyed        // answered requests
	open    []countRequest // requests with a key that were not answered for long
	again   int            // answers that were the first one again
	wrong   map[string]int // answers that a key forbids
}

// openCounts returns the function that opens a workload, with or without keys and changes of several counters.
func openCounts(sendsKeys bool) func(ctx context.Context, s site) (clients, error) {
	return func(_ context.Context, s site) (clients, error) {
		client, err := api.New(s.url, targets.Once(s.client)...)
		w := &counts{sendsKeys: sendsKeys, api: client, wrong: map[string]int{}, keys: newKeys(s, activeCounters,
			func(ctx context.Context, name string) (int32, error) {
				_, err := client.Create(ctx, name, 0)
				return 0, err
			})}
		return w, err
	}
}

// step changes or reads random counters, or now and then many at once: what comes at once to a replica is changed as a
// group, and groups of several replicas meet. Every other time none of these has a key or is a batch, because such a
// group has its own statement.
func (w *counts) step(ctx context.Context, client int, random *rand.Rand) {
	const crowd, oneIn = 2 * activeCounters, 20
	if random.IntN(oneIn) > 0 {
		w.one(ctx, client, random)
		return
	}
	seed, plain := random.Uint64(), random.IntN(2) == 0
	together(crowd, client, func(client int) {
		if random := newRandom(seed, client); plain {
			w.plain(ctx, client, random)
		} else {
			w.one(ctx, client, random)
		}
	})
}

// one sends a random request, or one with a key again.
func (w *counts) one(ctx context.Context, client int, random *rand.Rand) {
	const again, twice = 8, 4 // one in so many
	if random.IntN(again) == 0 && w.repeat(ctx, client, random) {
		return
	}
	r := w.draw(ctx, random)
	switch {
	case r.counters == nil: // what is counted could not be created
	case r.key == "":
		w.record(r, w.ask(ctx, client, r))
	case random.IntN(twice) == 0:
		w.insist(ctx, client, r, 3)
	default:
		w.insist(ctx, client, r, 1)
	}
}

// plain changes a random counter.
func (w *counts) plain(ctx context.Context, client int, random *rand.Rand) {
	if counter := w.pick(ctx, random); counter != nil {
		r := countRequest{counters: []*key{counter}, amounts: []int64{1 + random.Int64N(1000)}}
		w.record(r, w.ask(ctx, client, r))
	}
}

// countRequest is one request: to read a counter, to change one, or to change several.
type countRequest struct {
	key string // Idempotency-Key; "" for none
	// counters has the one of each amount; nil is a counter that is not there. A read has a counter and no amount.
	counters []*key
	amounts  []int64
	set      bool
	create   bool          // counters that are not there
	first    time.Duration // when it was first sent
}

// draw makes a request. Every fifth counter is sometimes given a value; the others are added to, so that their sums can
// be told.
func (w *counts) draw(ctx context.Context, random *rand.Rand) (r countRequest) {
	const several, most, oneIn = 8, 5, 8
	n, kind := 1, random.IntN(several)
	if kind == 0 && w.sendsKeys {
		n = 2 + random.IntN(most-1)
	}

	for range n {
		counter := w.pick(ctx, random)
		if counter == nil {
			return countRequest{}
		}
		amount := 1 + random.Int64N(1000)
		if random.IntN(3) == 0 {
			amount = -amount
		}
		r.counters, r.amounts = append(r.counters, counter), append(r.amounts, amount)
	}

	switch last := r.counters[0].name; {
	case n > 1 && random.IntN(oneIn) == 0:
		r.counters[random.IntN(n)] = nil
	case n > 1 && random.IntN(oneIn/2) == 0:
		r.create, r.counters[random.IntN(n)] = true, w.later(random)
	case n == 1 && kind < 3:
		r.amounts = nil
	case n == 1 && kind < 5 && (last[len(last)-1]-'0')%5 == 0:
		r.set, r.amounts[0] = true, random.Int64N(2)*r.amounts[0] // a reset, or any value
	}

	if w.sendsKeys && len(r.amounts) > 0 && random.IntN(2) == 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.made++
		r.key = fmt.Sprintf("%s-key-%d", w.prefix, w.made)
	}
	return r
}

// later returns a counter that is not there yet, or that another request is to create too.
func (w *counts) later(random *rand.Rand) *key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.created); n > 0 && random.IntN(2) == 0 {
		return w.created[n-1]
	}
	one := &key{name: fmt.Sprintf("%s-later-%d", w.prefix, len(w.created)+1)}
	w.created = append(w.created, one)
	return one
}

// refusal returns the code that the request must be refused with; "" for none.
func (r countRequest) refusal() rowlock.Code {
	if slices.Contains(r.counters, nil) {
		return api.ErrNotFound
	}
	return ""
}

// counter returns the name of a counter; that of none is not created.
func (k *key) counter() string {
	if k == nil {
		return "none"
	}
	return k.name
}

// ask sends the request. The output is a countAnswer.
func (w *counts) ask(ctx context.Context, client int, r countRequest) history.Op {
	return w.send(client, r.counters[0].counter(), countChange{r.amounts, r.set}, func() (any, error) {
		var a countAnswer
		var err error
		var options []api.Option
		if r.key != "" {
			options = []api.Option{api.WithKey(r.key), api.ReportReplayed(&a.replayed)}
		}

		var count api.Count
		counter := r.counters[0].counter()
		switch {
		case len(r.amounts) == 0:
			count, err = w.api.Get(ctx, counter)
		case len(r.amounts) > 1:
			changes := make([]api.Change, len(r.amounts))
			for i, amount := range r.amounts {
				changes[i] = api.Change{ID: r.counters[i].counter(), Amount: amount}
			}
			if r.create {
				options = append(options, api.CreateMissing())
			}
			a.values, err = w.api.Apply(ctx, changes, options...)
			return a, err
		case r.set && r.amounts[0] == 0:
			err = w.api.Reset(ctx, counter, options...)
		case r.set:
			count, err = w.api.Set(ctx, counter, r.amounts[0], options...)
		case r.amounts[0] > 0:
			count.Value, err = w.api.Increase(ctx, counter, r.amounts[0], options...)
		default:
			count.Value, err = w.api.Decrease(ctx, counter, -r.amounts[0], options...)
		}

		a.values = []int64{count.Value}
		return a, err
	})
}

// record adds the operation to the history of each of its counters.
func (w *counts) record(r countRequest, op history.Op) {
	if answered(op) && op.Code != string(r.refusal()) {
		w.blamef("%q instead of %q", op.Code, r.refusal())
	}
	a, _ := op.Output.(countAnswer)
	recorded := map[*key]bool{nil: true}
	for _, counter := range r.counters {
		if recorded[counter] {
			continue
		}
		recorded[counter] = true

		change, values := countChange{set: r.set}, []int64(nil)
		for i, other := range r.counters {
			if other == counter && i < len(r.amounts) {
				change.amounts = append(change.amounts, r.amounts[i])
			}
			if other == counter && i < len(a.values) {
				values = append(values, a.values[i])
			}
		}
		op.Key, op.Input, op.Output = counter.name, change, values
		w.history.Add(op)
		w.note(counter, op.Outcome)
	}
}

// probe reads a counter, which need not be there.
func (w *counts) probe(ctx context.Context) error {
	_, err := w.api.GetMany(ctx, w.first())
	return err
}

// settle repeats what was not answered for long, and reads every counter.
func (w *counts) settle(ctx context.Context) error {
	open := w.open
	w.open = nil
	for _, r := range open {
		w.insist(ctx, settling, r, 1)
	}

	if len(w.open) > 0 {
		return fmt.Errorf("%d requests with a key are not answered by repeats", len(w.open))
	}
	last := func(counter *key) targets.Outcome {
		r := countRequest{counters: []*key{counter}}
		op := w.ask(ctx, settling, r)
		w.record(r, op)
		return op.Outcome
	}

	changed := map[string]bool{}
	for _, op := range w.history.Ops() {
		changed[op.Key] = changed[op.Key] || op.Outcome == targets.OK
	}
	for _, counter := range w.created {
		if changed[counter.name] && last(counter) != targets.OK {
			return fmt.Errorf("%s was created and cannot be read", counter.name)
		}
	}
	return w.each(last)
}

// lock locks the row of a counter.
func (w *counts) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	return lockCounter(ctx, tx, w.first(), hold)
}

func lockCounter(ctx context.Context, tx *sqlx.Tx, id string, hold fault.Hold) error {
	return hold(tx.ExecContext(ctx, `SELECT FROM counts.count_values WHERE item_id = $1 FOR UPDATE`, id))
}

// check demands that every counter is linearizable, so that its last read is the sum of all that was answered, each key
// counted once; that the database holds what was read; and that repeats are answered as the first request was.
func (w *counts) check(ctx context.Context, f *findings) {
	names, values := []string{}, []int64{}
	for _, op := range f.ops {
		in, _ := op.Input.(countChange)
		if read, _ := op.Output.([]int64); op.Client == settling && len(in.amounts) == 0 && len(read) == 1 {
			names, values = append(names, op.Key), append(values, read[0])
		}
	}
	differ := f.count(ctx, `SELECT count(*) FROM unnest($1::text[], $2::bigint[]) AS read (id, value)
		LEFT JOIN counts.count_values ON item_id = id WHERE current_value IS DISTINCT FROM value`,
		pq.Array(names), pq.Array(values))
	f.histories(countModel())
	f.answers(api.ErrNotFound, api.ErrKeyConflict)
	f.addf("sums", differ == 0, "%d counters: %d differ from the database", len(names), differ)
	f.addf(sameAnswers, len(w.wrong) == 0, "%d keys: answers that they forbid: %s", w.made, listed(w.wrong))
	f.signs[replays] = w.again
	w.checkOutcomes(ctx, f)
}

// attackCounts has a counter that is locked and called for singly, by one key and in batches, and reads 500 counters at
// once.
func attackCounts(ctx context.Context, v *victim, s site) error {
	client, err := api.New(s.url, targets.Once(s.client)...)
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
	normal := strings.TrimPrefix(s.prefix, hostilePrefix)
	var calls atomic.Int64
	v.call = func(ctx context.Context) (int64, error) {
		n := calls.Add(1)
		var replayed bool
		var err error
		switch n % 3 {
		case 0:
			_, err = client.Increase(ctx, locked, 1)
		case 1: // a crowd that repeats one key
			key := fmt.Sprintf("%s-%d", s.prefix, n/int64(v.Crowd))
			_, err = client.Increase(ctx, locked, 1, api.WithKey(key), api.ReportReplayed(&replayed))
		default: // a batch that wants a normal client's counter beside the locked one, and leaves it as it is
			free := fmt.Sprintf("%s-%04d", normal, 1+n%activeCounters)
			_, err = client.Apply(ctx, []api.Change{{ID: free, Amount: 1}, {ID: locked, Amount: 1}, {ID: free, Amount: -1}})
		}
		if replayed {
			return 0, err
		}
		return 1, err
	}

	const value = `SELECT current_value FROM counts.count_values WHERE item_id = `
	v.stored, v.crossed = value+pq.QuoteLiteral(locked), value+pq.QuoteLiteral(crossed)
	return local.Execute(ctx, s.db, `INSERT INTO counts.count_values (item_id)
		SELECT '`+s.prefix+`-' || n FROM generate_series(0, 499) n`)
}
