package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// recentKeys are those that the clients repeat, at the same time and later.
	recentKeys = 24
	// keyLife is how long an idempotency key lives in a run, IDEMPOTENCY_TTL: longer
	// than a request takes, and short enough that keys end within a window.
	keyLife = 5 * time.Second
	// clockSlack is how much the database's clock may be off.
	clockSlack = 20 * time.Millisecond
)

// payments is the workload of the payments: new keys, repeats, repeats with
// another amount, and keys that are used again when their life is over.
type payments struct {
	caller  *Caller
	history *History
	prefix  string

	mu     sync.Mutex
	made   int
	recent []payKey
	aging  []payKey // used again when they are over, the oldest first
	again  int      // such keys that were paid with anew
}

type payKey struct {
	name   string
	amount int
	since  time.Time
}

func newPayments(c *Caller, h *History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &payments{caller: c, history: h, prefix: prefix}
}

// payInput is a request to pay.
type payInput struct{ Amount int }

// payOutput is what a client was told.
type payOutput struct {
	ID       string
	Replayed bool
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
	key := w.add(100 + random.IntN(1000)*10)
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
func (w *payments) add(amount int) payKey {
	w.made++
	return payKey{fmt.Sprintf("%s-%05d", w.prefix, w.made), amount, time.Now()}
}

func (w *payments) pay(ctx context.Context, client int, key string, amount int) Reply {
	op := Op{Client: client, Key: key, Input: payInput{amount}, Call: w.history.Now()}
	body := fmt.Sprintf(`{"ride_id":"prove","rider_id":"prove","amount":%d,"currency":"EUR",`+
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount)
	r := w.caller.Send(ctx, http.MethodPost, "/v1/payments", body, map[string]string{"Idempotency-Key": key})
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	switch {
	case r.Outcome == OK:
		var doc struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(r.Body, &doc); err != nil || doc.ID == "" {
			op.Outcome, op.Code = Unknown, badBody
		}
		op.Output = payOutput{doc.ID, r.Header.Get("Idempotent-Replayed") == "true"}
	case r.Code == "PAYMENT_PROCESSING":
		op.Outcome = NotApplied
	case r.Code == "PROCESSOR_ERROR", r.Code == "PROCESSOR_TIMEOUT":
		op.Outcome = NotApplied // of the payment; the charge is the ledger's
	}
	w.history.Add(op)
	return r
}

// Probe reads a page of payments.
func (w *payments) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, "/v1/payments?ride_id=probe", "", nil)
	if r.Outcome == OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle repeats every key of which something is unknown, as a caller would, until
// it has an answer: with an amount that was sent. A charge whose request was lost
// gets its payment then.
func (w *payments) Settle(ctx context.Context) error {
	keys, groups := byKey(w.history.Ops())
	for _, key := range keys {
		open := false
		var amounts []int
		for _, op := range groups[key] {
			in, _ := op.Input.(payInput)
			if !slices.Contains(amounts, in.Amount) {
				amounts = append(amounts, in.Amount)
			}
			open = open || op.Outcome == Unknown || op.Outcome == NotApplied
		}
		for _, amount := range amounts {
			if !open {
				break
			}
			open = w.pay(ctx, -1, key, amount).Outcome != OK
		}
		if open {
			return fmt.Errorf("%s is not settled by a repeat", key)
		}
	}
	w.again = reused(groups)
	return nil
}

// reused counts the keys that were paid with more than once.
func reused(groups map[string][]Op) (n int) {
	for _, ops := range groups {
		ids := map[string]bool{}
		for _, op := range ops {
			if out, ok := op.Output.(payOutput); ok && op.Outcome == OK {
				ids[out.ID] = true
			}
		}
		if len(ids) > 1 {
			n++
		}
	}
	return n
}

// keyReused is the sign that a key was paid with again after its life.
const keyReused = "key used again after its life"

// Signs counts the keys that were paid with again.
func (w *payments) Signs() map[string]int { return map[string]int{keyReused: w.again} }

// Hold claims a new key, which the clients get to repeat then, in a transaction
// that does not end: a key that is finished is answered without a lock.
func (w *payments) Hold(context.Context) Holding {
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
	return Holding{Locked: locked, Statement: fmt.Sprintf(`INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('%s', 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', clock_timestamp() + interval '1h')`, key.name)}
}

// payState is what stands under an idempotency key.
type payState struct {
	paid   bool
	amount int
	id     string // "" when it was paid by a request whose answer nobody saw
	// The key was taken between these two times: its life is counted from there.
	from, to time.Duration
}

// mayBeOver and isOver tell whether the key's life may have ended before a request
// returned, and whether it had ended when it was sent.
func (s payState) mayBeOver(op Op) bool { return op.Return > s.from+keyLife-clockSlack }

func (s payState) isOver(op Op) bool { return s.to != never && op.Call > s.to+keyLife+clockSlack }

// paymentModel is an idempotency key: the first request pays, the others get its
// answer, another amount is a conflict. When its life is over, the next request pays
// anew. Before the payment stands, a charge whose transaction was lost may already
// bind the key to an amount, so a conflict is explained then; afterwards only by
// another amount.
func paymentModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return payState{} },
		Step: func(state, input, output any) (bool, any) {
			s, _ := state.(payState)
			in, _ := input.(payInput)
			op, _ := output.(Op)
			return s.step(in, op)
		},
		DescribeOperation: func(input, output any) string {
			in, _ := input.(payInput)
			op, _ := output.(Op)
			return fmt.Sprintf("pay %d -> %s %s %+v", in.Amount, op.Outcome, op.Code, op.Output)
		},
	}
}

func (s payState) step(in payInput, op Op) (bool, payState) {
	free := !s.paid || s.mayBeOver(op)
	switch op.Outcome {
	case OK:
		out, _ := op.Output.(payOutput)
		if !out.Replayed {
			return free, payState{true, in.Amount, out.ID, op.Call, op.Return}
		}
		bound := payState{true, s.amount, out.ID, s.from, min(s.to, op.Return)}
		return s.paid && !s.isOver(op) && in.Amount == s.amount && (s.id == "" || s.id == out.ID), bound
	case Unknown:
		// One that changed nothing comes last of all, when it has no effect on anybody.
		if free {
			return true, payState{true, in.Amount, "", op.Call, never}
		}
		return true, s
	case Refused:
		return free || in.Amount != s.amount, s
	case NotApplied:
	}
	return true, s
}

// Check demands that every key is linearizable, and that the books balance: one
// payment and one charge for every key that was acknowledged.
func (w *payments) Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error) {
	ops := w.history.Ops()
	refused := func(op Op) bool { return op.Outcome == Refused }
	checks := []Check{checkLinear(paymentModel(), ops, refused, pictures).check(), unexpected(ops)}
	var conflicts, strange int
	for _, op := range ops {
		switch {
		case op.Outcome == Refused && op.Code == "IDEMPOTENCY_KEY_CONFLICT":
			conflicts++
		case op.Outcome == Refused:
			strange++
		}
	}
	checks = append(checks, check("refusals", strange == 0, "%d conflicts, %d other refusals", conflicts, strange))

	b, err := w.books(ctx, db)
	if err != nil {
		return nil, err
	}
	missing := 0
	for _, op := range ops {
		out, _ := op.Output.(payOutput)
		if op.Outcome == OK && !b.paid[out.ID] {
			missing++
		}
	}
	var orphans int
	err = db.GetContext(ctx, &orphans, `SELECT count(*) FROM payments.processor_charges c
		WHERE c.decline_code IS NULL AND NOT EXISTS (SELECT FROM payments.payments p WHERE p.processor_key = c.processor_key)`)
	if err != nil {
		return nil, fmt.Errorf("look for charges without a payment: %w", err)
	}
	keys, _ := byKey(ops)
	return append(checks, check("one charge", missing == 0 && b.early == 0 && b.unpaid == 0 && orphans == 0,
		"%d keys: acknowledged and lost %d, paid twice within a life %d, paid without a charge %d, charges without a payment %d",
		len(keys), missing, b.early, b.unpaid, orphans)), nil
}

// books are a window's payments and what was charged for them.
type books struct {
	paid          map[string]bool // by the payment's id
	unpaid, early int
}

func (w *payments) books(ctx context.Context, db *sqldb.DB) (books, error) {
	var rows []struct {
		ID      string `db:"id"`
		Charges int    `db:"charges"`
		Early   bool   `db:"early"`
	}
	err := db.SelectContext(ctx, &rows, `SELECT p.id, (SELECT count(*) FROM payments.processor_charges c
			WHERE c.processor_key = p.processor_key AND c.decline_code IS NULL) AS charges,
			coalesce(created_at - lag(created_at) OVER (PARTITION BY idempotency_key ORDER BY created_at)
				< $2 * interval '1 microsecond', false) AS early
		FROM payments.payments p WHERE starts_with(p.idempotency_key, $1)`, w.prefix+"-", (keyLife - clockSlack).Microseconds())
	b := books{paid: map[string]bool{}}
	if err != nil {
		return b, fmt.Errorf("read the payments: %w", err)
	}
	for _, row := range rows {
		b.paid[row.ID] = true
		if row.Charges == 0 {
			b.unpaid++
		}
		if row.Early {
			b.early++
		}
	}
	return b, nil
}
