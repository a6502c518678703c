package prove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	api "github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// recentKeys are those that the clients repeat, at the same time and later.
	recentKeys = 24
	// keyLife is the lifetime of an idempotency key in a run, IDEMPOTENCY_TTL: longer than a request takes, and short
	// enough that keys end within a window.
	keyLife = 5 * time.Second
	// lockWait is the longest wait for a lock, LOCK_WAIT and DB_LOCK_TIMEOUT. Window citus-grow has a longer one.
	lockWait = 1500 * time.Millisecond
)

// The signs of payments that a window must show.
const (
	// keyReused counts keys that were paid with again after their life.
	keyReused = "key used again after its life"
	// timedOut counts payments that were answered PROCESSOR_TIMEOUT.
	timedOut = "processor timed out"
	// reconciled counts payments that no caller was answered first: the service settled them.
	reconciled = "settled by no caller"
)

var _ = register(targets.Payments, kind{
	open: newPayments, writes: []string{"insert into payments."}, singles: true, attack: attackPayments,
	changes: func(op history.Op) bool {
		out, _ := op.Output.(paymentOutput)
		return !out.replayed
	},
	signs: map[string][]string{
		windowNone: {keyReused}, windowHostile: {string(fault.LockedKey)}, windowSlow: {timedOut, reconciled},
	},
	mutants: []Mutant{
		mutant("donothing", "DO NOTHING for a key that has expired", windowNone, linearizable),
	},
})

// paymentOutput holds what the client was answered.
type paymentOutput struct {
	id       string
	replayed bool
}

// payment holds what stands under an idempotency key.
type payment struct {
	paid   bool
	amount int64
	id     string // "" when it was paid by a request whose answer was lost
	// The key was taken between these two times: its life is counted from there.
	from, to time.Duration
}

// paymentModel returns the model of an idempotency key that lives for keyLife: the first request pays, the others get
// its answer, and another amount is a conflict. When the key's life is over, the next request pays again. The input is
// the amount, an int64.
//
// Before the payment stands, a claim or a charge whose request was lost may already bind
// the key to an amount, so any conflict is explained then; afterwards only by another
// amount. A request that the processor kept waiting may still be settled: it is unknown.
func paymentModel() porcupine.Model {
	return history.NewModel(payment{}, func(s payment, amount int64, op history.Op) []payment {
		mayBeOver := op.Return > s.from+keyLife-history.ClockSlack
		isOver := s.to != history.Never && op.Call > s.to+keyLife+history.ClockSlack
		free := !s.paid || mayBeOver
		switch op.Outcome {
		case targets.OK:
			out, _ := op.Output.(paymentOutput)
			if !out.replayed {
				return history.When(free, payment{true, amount, out.id, op.Call, op.Return})
			}
			same := amount == s.amount && (s.id == "" || s.id == out.id)
			return history.When(s.paid && !isOver && same, payment{true, s.amount, out.id, s.from, min(s.to, op.Return)})

		case targets.Unknown:
			// One that changed nothing is placed after all others, where it has no effect.
			if free {
				s = payment{true, amount, "", op.Call, history.Never}
			}

		case targets.Refused:
			return history.When(free || amount != s.amount, s)
		case targets.NotApplied:
		}
		return history.When(true, s)
	})
}

// payments pays with new keys, repeats them with the same and with another amount, and
// uses some again when their life is over.
type payments struct {
	site

	api *api.Client

	mu   sync.Mutex
	made int
	keys []payKey // all, the last ones used most
	over int      // of keys, the next one to be used again when its life is over
}

type payKey struct {
	name   string
	amount int64
	card   string
	since  time.Time
}

const (
	goodCard = "4242424242424242"
	// lateCard is charged without an answer, once.
	lateCard = "4000000000000259"
)

func newPayments(_ context.Context, s site) (clients, error) {
	client, err := api.New(s.url, targets.Once(s.client)...)
	w := &payments{site: s, api: client}
	return w, err
}

// step pays with a new key or repeats a recent one, now and then with another amount.
func (w *payments) step(ctx context.Context, client int, random *rand.Rand) {
	key := w.pick(random)
	amount := key.amount
	if random.IntN(10) == 0 {
		amount++
	}
	w.pay(ctx, client, key, amount)
}

func (w *payments) pick(random *rand.Rand) payKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	const oneIn = 4 // is used again
	// A little later than its life: the first request may have taken its time.
	if w.over < len(w.keys) && time.Since(w.keys[w.over].since) > keyLife+time.Second/2 {
		key := w.keys[w.over]
		key.since = time.Now()
		w.keys = append(w.keys, key) // others repeat it at the same time
		w.over += oneIn
		return key
	}
	if recent := w.recent(); len(recent) > 0 && random.IntN(2) == 0 {
		return recent[random.IntN(len(recent))]
	}
	w.keys = append(w.keys, w.fresh(100+random.Int64N(1000)*10))
	return w.keys[len(w.keys)-1]
}

// recent returns the last keys; the caller has the lock.
func (w *payments) recent() []payKey { return w.keys[max(0, len(w.keys)-recentKeys):] }

// fresh makes a key; the caller has the lock.
func (w *payments) fresh(amount int64) payKey {
	w.made++
	card := goodCard
	const oneIn = 6
	if w.window == windowSlow && w.made%oneIn == 0 {
		card = lateCard
	}
	return payKey{fmt.Sprintf("%s-%05d", w.prefix, w.made), amount, card, time.Now()}
}

func (w *payments) pay(ctx context.Context, client int, key payKey, amount int64) history.Op {
	op := w.send(client, key.name, amount, func() (any, error) {
		ride := targets.Ride("prove")
		ride.Amount, ride.Card.Number = amount, key.card
		p, replayed, err := w.api.Create(ctx, key.name, ride)
		if err == nil && p.Amount != amount {
			err = badAnswer("a payment of another amount")
		}
		return paymentOutput{p.ID, replayed}, err
	})
	w.history.Add(op)
	return op
}

// probe reads a page of payments.
func (w *payments) probe(ctx context.Context) error {
	_, _, err := w.api.List(ctx, "probe", 1, "")
	return err
}

// patience is the time for which a caller repeats: much longer than the claim of a replica that was killed lives, which
// is PROCESSOR_TIMEOUT and a second.
const patience = 10 * time.Second

// settle repeats every key with an unknown outcome, as a caller would, until it has an answer: with an amount that was
// sent. In window slow-processor the service itself has to settle what is charged, before the callers repeat.
func (w *payments) settle(ctx context.Context) error {
	if w.window == windowSlow {
		if err := w.awaitPayments(ctx); err != nil {
			return err
		}
	}
	known := map[string]payKey{}
	for _, key := range w.keys {
		known[key.name] = key
	}
	const atOnce = 32
	var all errgroup.Group
	all.SetLimit(atOnce)
	for name, ops := range history.ByKey(w.history.Ops()) {
		all.Go(func() error { return w.settleKey(ctx, known[name], ops) })
	}
	return all.Wait()
}

func (w *payments) settleKey(ctx context.Context, key payKey, ops []history.Op) error {
	open := false
	amounts := map[int64]bool{}
	for _, op := range ops {
		amount, _ := op.Input.(int64)
		amounts[amount] = true
		open = open || op.Outcome == targets.Unknown || op.Outcome == targets.NotApplied
	}
	for begin := time.Now(); open && time.Since(begin) < patience; {
		for amount := range amounts {
			open = open && w.pay(ctx, settling, key, amount).Outcome != targets.OK
		}
	}
	if open {
		return fmt.Errorf("%s is not settled by repeats", key.name)
	}
	return nil
}

// orphansSQL counts charges without a payment.
const orphansSQL = `SELECT count(*) FROM payments.processor_charges c
	WHERE decline_code IS NULL AND NOT EXISTS (SELECT FROM payments.payments p WHERE p.processor_key = c.processor_key)`

// awaitPayments waits until every charge has its payment.
func (w *payments) awaitPayments(ctx context.Context) (err error) {
	open := -1
	for deadline := time.Now().Add(patience); open != 0 && time.Now().Before(deadline); {
		if err = w.db.GetContext(ctx, &open, orphansSQL); err != nil || !fault.Wait(ctx, 50*time.Millisecond) {
			return fmt.Errorf("count the open charges: %w", errors.Join(err, ctx.Err()))
		}
	}
	if open > 0 {
		return fmt.Errorf("%d charges have no payment %s after the last caller", open, patience)
	}
	return nil
}

// lock claims a new key, which the clients get to repeat then, and drops it at the end of
// the transaction: a key that is finished is answered without a lock.
func (w *payments) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	w.mu.Lock()
	key := w.fresh(100)
	w.mu.Unlock()
	return claimKey(ctx, tx, key.name, func(locked sql.Result, err error) error {
		w.mu.Lock()
		recent := w.recent()
		for i := 0; i < len(recent); i += 3 {
			recent[i] = key
		}
		w.mu.Unlock()
		return hold(locked, err)
	})
}

// claimKey claims a key, calls hold, and drops the claim.
func claimKey(ctx context.Context, tx *sqlx.Tx, key string, hold fault.Hold) error {
	err := hold(tx.ExecContext(ctx, `INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key, ride_id, rider_id,
		 amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at, created_at)
		VALUES ($1, 'PROCESSING', sha256(''), 'x', gen_random_uuid(), now() + interval '1h', 'x', 'r', 'r', 1, 'EUR',
		 'visa', '4242', 12, 2099, now() + interval '1h', now())`, key))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM payments.idempotency_records WHERE key = $1`, key)
	return err
}

// attackPayments has a key that is claimed, a new one each time, and lists payments.
func attackPayments(_ context.Context, v *victim, s site) error {
	client, err := api.New(s.url, targets.Once(s.client)...)
	if err != nil {
		return err
	}
	const path = "/v1/payments"
	v.Change, v.Begun = hostile.Post(path, jsonType, `{}`, 0), hostile.Post(path, jsonType, `{`, missing)
	v.Upload = hostile.Post(path, jsonType, `{"ride_id":"`, longBody)
	v.Large = []string{hostile.Get(path + "?limit=100&ride_id=prove")}
	v.Bad = []string{
		hostile.Get(path + "/a%00b"), hostile.Get(path + "?ride_id=a%00b"), hostile.Post(path, jsonType, `{"ride_id":`, 0),
	}

	prefix := s.prefix + "-locked-"
	pay := func(ctx context.Context, n int64) (int64, error) {
		_, replayed, err := client.Create(ctx, fmt.Sprint(prefix, n), targets.Ride(s.prefix))
		if replayed {
			return 0, err
		}
		return 1, err
	}

	var last atomic.Int64
	v.lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		n := last.Load() + 1
		return claimKey(ctx, tx, fmt.Sprint(prefix, n), func(locked sql.Result, err error) error {
			last.Store(n)
			return hold(locked, err)
		})
	}

	v.call = func(ctx context.Context) (int64, error) { return pay(ctx, last.Load()) }
	v.settle = func(ctx context.Context) (err error) {
		for n := last.Load(); n >= 0 && err == nil; n-- {
			err = v.ask(ctx, func(ctx context.Context) (int64, error) { return pay(ctx, n) })
		}
		return err
	}
	v.stored = `SELECT count(*) FROM payments.payments WHERE starts_with(idempotency_key, ` + pq.QuoteLiteral(prefix) + `)`
	return nil
}

// check demands that every key is linearizable, and that each acknowledged payment is
// stored and charged once in its key's life.
func (w *payments) check(ctx context.Context, f *findings) {
	// Ids, those of them that were no repeats, and keys with an answer that was lost.
	acknowledged, first, lost := []string{}, []string{}, []string{}
	for _, op := range f.ops {
		out, _ := op.Output.(paymentOutput)
		switch {
		case op.Code == string(api.ErrProcessorTimeout):
			f.signs[timedOut]++
		case op.Outcome == targets.Unknown:
			lost = append(lost, op.Key)
		case op.Outcome != targets.OK:
		case !out.replayed:
			first = append(first, out.id)
			fallthrough
		default:
			acknowledged = append(acknowledged, out.id)
		}
	}

	// A life counts from the claim's start, which may wait for a lock, and a payment is dated when the claim has its row;
	// one that the service itself settled is dated later. The check of the history covers payments in between.
	surely := keyLife - lockWait - history.ClockSlack
	var rows struct{ Again, Early, Unpaid, Alone, Orphans int }
	f.get(ctx, &rows, `SELECT count(*) FILTER (WHERE since IS NOT NULL) AS again,
			count(*) FILTER (WHERE since < $2 * interval '1 microsecond' AND previous::text = ANY ($3)) AS early,
			count(*) FILTER (WHERE NOT EXISTS (SELECT FROM payments.processor_charges c
				WHERE c.processor_key = p.processor_key AND c.decline_code IS NULL)) AS unpaid,
			count(*) FILTER (WHERE id::text <> ALL ($3) AND idempotency_key <> ALL ($4)) AS alone,
			(`+orphansSQL+`) AS orphans
		FROM (SELECT *, created_at - lag(created_at) OVER lives AS since, lag(id) OVER lives AS previous
			FROM payments.payments WHERE starts_with(idempotency_key, $1)
			WINDOW lives AS (PARTITION BY idempotency_key ORDER BY created_at)) p`,
		w.prefix+"-", surely.Microseconds(), pq.Array(first), pq.Array(lost))

	missing := f.count(ctx, `SELECT count(*) FROM unnest($1::text[]) AS answered (id)
		WHERE NOT EXISTS (SELECT FROM payments.payments p WHERE p.id::text = answered.id)`, pq.Array(acknowledged))
	f.histories(paymentModel())
	w.checkOutcomes(ctx, f)
	f.answers(api.ErrKeyConflict)
	f.addf("one charge", missing+rows.Early+rows.Unpaid+rows.Orphans == 0, "acknowledged and lost %d, "+
		"paid twice within a life %d, paid without a charge %d, charges without a payment %d",
		missing, rows.Early, rows.Unpaid, rows.Orphans)
	f.signs[keyReused], f.signs[reconciled] = rows.Again, rows.Alone
}
