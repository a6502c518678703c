package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/workload"
	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// recentKeys are those that the clients repeat, at the same time and later.
	recentKeys = 24
	// keyLife is how long an idempotency key lives in a run, IDEMPOTENCY_TTL: longer
	// than a request takes, and short enough that keys end within a window.
	keyLife = 5 * time.Second
)

// payments pays with new keys, repeats them with the same and with another amount, and
// uses some again when their life is over.
type payments struct {
	api     *api.Client
	history *history.History
	prefix  string

	mu     sync.Mutex
	made   int
	recent []payKey
	aging  []payKey // used again when they are over, the oldest first
}

type payKey struct {
	name   string
	amount int64
	since  time.Time
}

func newPayments(s site) (Workload, error) { //nolint:ireturn // one of kinds
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	return &payments{api: client, history: s.history, prefix: s.prefix}, err
}

// Step pays with a new key or repeats a recent one, now and then with another amount.
func (w *payments) Step(ctx context.Context, client int, random *rand.Rand) {
	key := w.pick(random)
	amount := key.amount
	if random.IntN(10) == 0 {
		amount++
	}
	w.pay(ctx, client, key.name, amount)
}

func (w *payments) pick(random *rand.Rand) payKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A little later than its life: the first request may have taken its time.
	if len(w.aging) > 0 && time.Since(w.aging[0].since) > keyLife+time.Second/2 {
		key := w.aging[0]
		w.aging = w.aging[1:]
		w.recent[random.IntN(len(w.recent))] = key // others repeat it at the same time
		return key
	}
	if len(w.recent) > 0 && random.IntN(2) == 0 {
		return w.recent[random.IntN(len(w.recent))]
	}
	key := w.add(100 + random.Int64N(1000)*10)
	if len(w.recent) < recentKeys {
		w.recent = append(w.recent, key)
	} else {
		w.recent[random.IntN(recentKeys)] = key
	}
	const oneIn = 4
	if random.IntN(oneIn) == 0 {
		w.aging = append(w.aging, key)
	}
	return key
}

// add makes a key's name; the caller has the lock.
func (w *payments) add(amount int64) payKey {
	w.made++
	return payKey{fmt.Sprintf("%s-%05d", w.prefix, w.made), amount, time.Now()}
}

func (w *payments) pay(ctx context.Context, client int, key string, amount int64) history.Op {
	op := history.Op{Client: client, Key: key, Input: history.PaymentInput{Amount: amount}}
	op = send(w.history, op, func() (any, error) {
		ride := workload.Ride("prove")
		ride.Amount = amount
		p, replayed, err := w.api.Create(ctx, key, ride)
		if err == nil && p.Amount != amount {
			err = badAnswer("a payment of another amount")
		}
		return history.PaymentOutput{ID: p.ID, Replayed: replayed}, err
	})
	if op.Code == string(rowlock.ErrProcessorError) || op.Code == string(rowlock.ErrProcessorTimeout) {
		op.Outcome = history.NotApplied // the payment; the charge is the ledger's
	}
	w.history.Add(op)
	return op
}

// Probe reads a page of payments.
func (w *payments) Probe(ctx context.Context) error {
	_, _, err := w.api.List(ctx, "probe", 1, "")
	return err
}

// Settle repeats every key of which something is unknown, as a caller would, until
// it has an answer: with an amount that was sent. A charge whose request was lost
// gets its payment then.
func (w *payments) Settle(ctx context.Context) error {
	keys, groups := history.ByKey(w.history.Ops())
	for _, key := range keys {
		open := false
		amounts := map[int64]bool{}
		for _, op := range groups[key] {
			in, _ := op.Input.(history.PaymentInput)
			amounts[in.Amount] = true
			open = open || op.Outcome == history.Unknown || op.Outcome == history.NotApplied
		}
		for amount := range amounts {
			open = open && w.pay(ctx, -1, key, amount).Outcome != history.OK
		}
		if open {
			return fmt.Errorf("%s is not settled by a repeat", key)
		}
	}
	return nil
}

// Lock claims a new key, which the clients get to repeat then, in a transaction
// that does not end: a key that is finished is answered without a lock.
func (w *payments) Lock(context.Context) fault.Lock {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.add(100)
	locked := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.recent {
			if i%3 == 0 {
				w.recent[i] = key
			}
		}
	}
	return fault.Lock{Locked: locked, Statement: fmt.Sprintf(`INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('%s', 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', clock_timestamp() + interval '1h')`, key.name)}
}

// keyReused counts keys that were paid with again after their life.
const keyReused = "key used again after its life"

// Check demands that every key is linearizable, and that each acknowledged payment is
// stored and charged once in its key's life.
func (w *payments) Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error) {
	ops := w.history.Ops()
	var rows []struct {
		ID      string `db:"id"`
		Charged bool   `db:"charged"`
		Again   bool   `db:"again"`
		Early   bool   `db:"early"`
	}
	err := db.SelectContext(ctx, &rows, `SELECT p.id, EXISTS (SELECT FROM payments.processor_charges c
			WHERE c.processor_key = p.processor_key AND c.decline_code IS NULL) AS charged,
			lag(created_at) OVER key IS NOT NULL AS again,
			coalesce(created_at - lag(created_at) OVER key < $2 * interval '1 microsecond', false) AS early
		FROM payments.payments p WHERE starts_with(p.idempotency_key, $1)
		WINDOW key AS (PARTITION BY idempotency_key ORDER BY created_at)`,
		w.prefix+"-", (keyLife - history.ClockSlack).Microseconds())
	if err != nil {
		return Findings{}, fmt.Errorf("read the payments: %w", err)
	}
	var missing, again, early, unpaid, orphans int
	stored := map[string]bool{}
	for _, row := range rows {
		stored[row.ID] = true
		if !row.Charged {
			unpaid++
		}
		if row.Again {
			again++
		}
		if row.Early {
			early++
		}
	}
	for _, op := range ops {
		if out, _ := op.Output.(history.PaymentOutput); op.Outcome == history.OK && !stored[out.ID] {
			missing++
		}
	}
	err = db.GetContext(ctx, &orphans, `SELECT count(*) FROM payments.processor_charges c WHERE c.decline_code IS NULL
		AND NOT EXISTS (SELECT FROM payments.payments p WHERE p.processor_key = c.processor_key)`)
	if err != nil {
		return Findings{}, fmt.Errorf("look for charges without a payment: %w", err)
	}
	keys, _ := history.ByKey(ops)
	return Findings{
		Checks: []Check{
			checkHistory(history.Payments(keyLife), ops, pictures), checkAnswers(ops),
			checkRefusals(ops, rowlock.ErrIdempotencyKeyConflict),
			check("one charge", missing == 0 && early == 0 && unpaid == 0 && orphans == 0, "%d keys: acknowledged and lost %d, "+
				"paid twice within a life %d, paid without a charge %d, charges without a payment %d",
				len(keys), missing, early, unpaid, orphans),
		},
		Signs: map[string]int{keyReused: again},
	}, nil
}
