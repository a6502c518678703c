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

// recentKeys are those that the clients repeat, at the same time and later.
const recentKeys = 24

// payments is the workload of the payments: new keys, repeats, repeats with
// another amount.
type payments struct {
	caller  *Caller
	history *History
	prefix  string

	mu     sync.Mutex
	made   int
	recent []payKey
}

type payKey struct {
	name   string
	amount int
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
	if len(w.recent) > 0 && random.IntN(2) == 0 {
		return w.recent[random.IntN(len(w.recent))]
	}
	key := w.add(100 + random.IntN(1000)*10)
	if len(w.recent) < recentKeys {
		w.recent = append(w.recent, key)
	} else {
		w.recent[random.IntN(recentKeys)] = key
	}
	return key
}

// add makes a key's name; the caller has the lock.
func (w *payments) add(amount int) payKey {
	w.made++
	return payKey{fmt.Sprintf("%s-%05d", w.prefix, w.made), amount}
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

// Settle repeats every key whose outcome is unknown, as a caller would, until it
// has one: with the amount that was sent first, or what was charged for.
func (w *payments) Settle(ctx context.Context) error {
	_, groups := byKey(w.history.Ops())
	for key, ops := range groups {
		settled := false
		tried := map[int]bool{}
		for _, op := range ops {
			in, _ := op.Input.(payInput)
			tried[in.Amount] = true
			settled = settled || op.Outcome == OK
		}
		for amount := range tried {
			if settled {
				break
			}
			settled = w.pay(ctx, -1, key, amount).Outcome == OK
		}
		if !settled {
			return fmt.Errorf("%s is not settled by a repeat", key)
		}
	}
	return nil
}

// Hold claims a new key, which the clients get to repeat then, in a transaction
// that does not end: a key that is finished is answered without a lock.
func (w *payments) Hold() (statement string, locked func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.add(100)
	locked = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.recent {
			if i%3 == 0 {
				w.recent[i] = key
			}
		}
	}
	return fmt.Sprintf(`INSERT INTO payments.idempotency_records (key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('%s', 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', clock_timestamp() + interval '1h')`, key.name), locked
}

// payState is what stands under an idempotency key.
type payState struct {
	paid   bool
	amount int
	id     string // "" when it was paid by a request whose answer nobody saw
}

// paymentModel is an idempotency key: the first request pays, the others get its
// answer, another amount is a conflict. Before the payment stands, a charge whose
// transaction was lost may already bind the key to an amount, so a conflict is
// explained then; afterwards only by another amount.
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
	switch op.Outcome {
	case OK:
		out, _ := op.Output.(payOutput)
		if !s.paid {
			return !out.Replayed, payState{true, in.Amount, out.ID}
		}
		bound := payState{true, s.amount, out.ID}
		return out.Replayed && in.Amount == s.amount && (s.id == "" || s.id == out.ID), bound
	case Unknown:
		if !s.paid {
			return true, payState{true, in.Amount, ""}
		}
		return true, s
	case Refused:
		return !s.paid || in.Amount != s.amount, s
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

	paid, charges, err := w.books(ctx, db)
	if err != nil {
		return nil, err
	}
	var missing, doubled, unpaid int
	for _, op := range ops {
		out, _ := op.Output.(payOutput)
		if op.Outcome == OK && paid[op.Key] != out.ID {
			missing++
		}
	}
	keys, _ := byKey(ops)
	for _, key := range keys {
		if charges[key] > 1 {
			doubled++
		}
		if paid[key] != "" && charges[key] != 1 {
			unpaid++
		}
	}
	var orphans int
	err = db.GetContext(ctx, &orphans, `SELECT count(*) FROM payments.processor_charges c
		WHERE c.decline_code IS NULL AND NOT EXISTS (SELECT FROM payments.payments p WHERE p.processor_key = c.processor_key)`)
	if err != nil {
		return nil, fmt.Errorf("look for charges without a payment: %w", err)
	}
	return append(checks, check("one charge", missing == 0 && doubled == 0 && unpaid == 0 && orphans == 0,
		"%d keys: acknowledged and lost %d, charged twice %d, paid without a charge %d, charges without a payment %d",
		len(keys), missing, doubled, unpaid, orphans)), nil
}

// books reads the window's payments, by key, and how often each was charged for.
func (w *payments) books(ctx context.Context, db *sqldb.DB) (paid map[string]string, charges map[string]int, err error) {
	var rows []struct {
		Key     string `db:"idempotency_key"`
		ID      string `db:"id"`
		Charges int    `db:"charges"`
	}
	err = db.SelectContext(ctx, &rows, `SELECT p.idempotency_key, p.id, (SELECT count(*) FROM payments.processor_charges c
			WHERE c.processor_key = p.processor_key AND c.decline_code IS NULL) AS charges
		FROM payments.payments p WHERE starts_with(p.idempotency_key, $1)`, w.prefix+"-")
	if err != nil {
		return nil, nil, fmt.Errorf("read the payments: %w", err)
	}
	paid, charges = map[string]string{}, map[string]int{}
	for _, row := range rows {
		paid[row.Key] = row.ID
		charges[row.Key] += row.Charges
	}
	return paid, charges, nil
}
