package payment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

const good = "4242424242424242"

func newCard(t *testing.T) payment.Card {
	t.Helper()
	c, err := payment.NewCard(good, 12, time.Now().Year()+1, "123")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fare is newRequest's.
var fare = payment.Fare{RideID: "ride", RiderID: "rider", Amount: 1250, Currency: "EUR"}

func newRequest(t *testing.T) payment.Request {
	t.Helper()
	r, err := payment.NewRequest("ride", "rider", 1250, "EUR", newCard(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rig is a service whose outbound ports answer as its fields say. The repository has the
// record stored, if there is one, and otherwise lets each caller hold its key. The processor records what it is asked.
type rig struct {
	payment.Repository

	stored  *payment.Record
	of      payment.Fingerprint // of the request that was stored
	held    payment.Held
	fenced  bool  // the claim was taken over, and the payment "stored" was stored instead
	doubt   error // of a settlement
	overdue []payment.Overdue
	page    []payment.Payment
	err     error
	result  payment.Result
	fault   error

	settled payment.Payment
	charges []payment.Charge
	events  []string
}

func (r *rig) service(f *payment.Fingerprints) *payment.Service {
	return &payment.Service{
		Repository: r, Processor: processorOf{r}, Fingerprints: f, TTL: time.Hour, Lease: time.Minute,
		Claimed: r.Claimed, Settled: r.Settled, Replayed: r.Replayed, Conflict: r.Conflict,
		Currencies: func(c payment.Currency) bool { return c == "EUR" },
	}
}

func (r *rig) Claim(_ context.Context, c payment.Claim) (payment.Claimed, error) {
	if r.err != nil {
		return payment.Claimed{}, r.err
	}
	if r.stored != nil {
		same, err := c.Same(r.of)
		if err == nil && !same {
			err = payment.ErrKeyConflict
		}
		return payment.Claimed{Record: r.stored}, err
	}
	h := r.held
	h.Key, h.ClaimID, h.Terms = c.Key, c.ID, c.Terms
	return payment.Claimed{Held: h, Leave: func() { r.events = append(r.events, "left") }}, nil
}

func (r *rig) Settle(_ context.Context, _ payment.Held, p payment.Payment) (payment.Record, bool, error) {
	if r.fenced || r.doubt != nil {
		return payment.Record{PaymentID: "stored"}, false, r.doubt
	}
	r.settled = p
	return payment.Record{PaymentID: p.ID}, true, nil
}

func (r *rig) GiveBack(ctx context.Context, _ payment.Held) error {
	r.events = append(r.events, "given back")
	return ctx.Err()
}

func (r *rig) Drop(context.Context, payment.Held) error {
	r.events = append(r.events, "dropped")
	return nil
}

func (r *rig) Overdue(context.Context, time.Duration, time.Duration, int) ([]payment.Overdue, error) {
	return r.overdue, r.err
}

func (r *rig) FindOfRide(_ context.Context, _ payment.RideID, _ *payment.Position, n int) ([]payment.Payment, error) {
	return r.page[:min(n, len(r.page))], r.err
}

func (r *rig) Charge(_ context.Context, c payment.Charge) (payment.Result, error) {
	r.charges = append(r.charges, c)
	return r.result, r.fault
}

// processorOf is the rig as a processor, which finds what it would charge.
type processorOf struct{ *rig }

func (r processorOf) Find(_ context.Context, c payment.Charge) (payment.Result, error) {
	r.charges = append(r.charges, c)
	return r.result, r.fault
}

func (r *rig) Claimed() (ended func()) {
	r.events = append(r.events, "claimed")
	return func() { r.events = append(r.events, "ended") }
}

func (r *rig) Settled(s payment.Status) { r.events = append(r.events, string(s)) }
func (r *rig) Replayed()                { r.events = append(r.events, "replayed") }
func (r *rig) Conflict()                { r.events = append(r.events, "conflict") }

func (r *rig) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.events, want) {
		t.Errorf("observed %v, want %v", r.events, want)
	}
}

var secret = payment.NewFingerprints("secret", "")

// The owner of a key charges once, under the processor key of its turn, and the payment
// holds what was charged.
func TestPay(t *testing.T) {
	t.Parallel()
	request := newRequest(t)
	for _, tc := range []struct {
		decline string
		status  payment.Status
	}{{"", payment.Succeeded}, {"card_declined", payment.Declined}} {
		r := &rig{result: payment.Result{DeclineCode: tc.decline}}
		r.held = payment.Held{ProcessorKey: "processor key", Now: time.Now().UTC()}
		answer, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, request)
		p := r.settled
		if err != nil || answer.Replayed || answer.PaymentID != p.ID {
			t.Errorf("%+v, %v", answer, err)
		}
		want := payment.Payment{
			ID: p.ID, Fare: fare, Status: tc.status, DeclineCode: tc.decline, Card: request.Card.Face(), CreatedAt: r.held.Now,
		}
		charge := payment.Charge{Key: "processor key", Fare: fare, Card: request.Card}
		if p != want || !slices.Equal(r.charges, []payment.Charge{charge}) {
			t.Errorf("settled %+v after %+v, want %+v after %+v", p, r.charges, want, charge)
		}
		r.wantEvents(t, "claimed", string(tc.status), "left", "ended")
	}
}

// A client that leaves once its card is to be charged cancels nothing; what the processor says decides what becomes of
// the claim.
func TestEndOfAClaim(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("%w: %w", payment.ErrProcessorFault, payment.ErrNotCharged)
	for name, tc := range map[string]struct {
		fault     error
		takenOver bool
		events    []string
	}{
		"it did not charge":           {refused, false, []string{"dropped"}},
		"after a takeover":            {refused, true, []string{"given back"}},
		"it failed":                   {payment.ErrProcessorFault, false, []string{"given back"}},
		"it did not answer":           {payment.ErrProcessorTimeout, false, []string{"given back"}},
		"it charged another request":  {payment.ErrKeyConflict, false, []string{"conflict", "dropped"}},
		"so it did before a takeover": {payment.ErrKeyConflict, true, []string{"conflict", "dropped"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := &rig{fault: tc.fault, held: payment.Held{TakenOver: tc.takenOver}}
		if _, err := r.service(secret).Pay(ctx, payment.Key{Value: "k"}, newRequest(t)); !errors.Is(err, tc.fault) {
			t.Errorf("%s: %v", name, err)
		}
		r.wantEvents(t, slices.Concat([]string{"claimed"}, tc.events, []string{"left", "ended"})...)
	}
}

// A holder whose claim was taken over answers what is stored. A settlement in doubt gives the claim back, so that a
// repeat need not wait for it to run out.
func TestSettlementThatIsNotTheFirst(t *testing.T) {
	t.Parallel()
	for event, r := range map[string]*rig{"replayed": {fenced: true}, "given back": {doubt: payment.ErrOutcomeUnknown}} {
		a, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, newRequest(t))
		if !errors.Is(err, r.doubt) || r.fenced && (!a.Replayed || a.PaymentID != "stored") {
			t.Errorf("%s: %+v, %v", event, a, err)
		}
		r.wantEvents(t, "claimed", event, "left", "ended")
	}
}

// Reconciling settles what the processor knows, asks again about what it does not, until the record's life is over, and
// never charges.
func TestReconcile(t *testing.T) {
	t.Parallel()
	terms := payment.Terms{Fare: fare}
	for name, tc := range map[string]struct {
		result  payment.Result
		fault   error
		expired bool
		events  []string
	}{
		"charged":                   {payment.Result{}, nil, false, []string{"SUCCEEDED"}},
		"declined":                  {payment.Result{DeclineCode: "x"}, nil, false, []string{"DECLINED"}},
		"charged, and expired":      {payment.Result{}, nil, true, []string{"SUCCEEDED"}},
		"unknown":                   {payment.Result{}, payment.ErrNotCharged, false, []string{"given back"}},
		"unknown, and expired":      {payment.Result{}, payment.ErrNotCharged, true, []string{"dropped"}},
		"no answer, and expired":    {payment.Result{}, payment.ErrProcessorTimeout, true, []string{"given back"}},
		"charged for other content": {payment.Result{}, payment.ErrKeyConflict, false, []string{"dropped"}},
	} {
		r := &rig{result: tc.result, fault: tc.fault}
		r.overdue = []payment.Overdue{{Expired: tc.expired, Held: payment.Held{ProcessorKey: "p", Terms: terms}}}
		if n, err := r.service(secret).Reconcile(t.Context(), 5); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		want := []payment.Charge{{Key: "p", Fare: fare}}
		if !slices.Equal(r.charges, want) {
			t.Errorf("%s: it asked %+v, want %+v", name, r.charges, want)
		}
		r.wantEvents(t, tc.events...)
	}
	broken := &rig{err: errors.New("away")}
	if _, err := broken.service(secret).Reconcile(t.Context(), 5); !errors.Is(err, broken.err) {
		t.Errorf("%v", err)
	}
}

func TestUnknownCurrencyIsRefused(t *testing.T) {
	t.Parallel()
	r, request := &rig{}, newRequest(t)
	request.Currency = "ABC"
	_, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, request)
	if fieldOf(t, err) != "currency" || len(r.charges) != 0 {
		t.Errorf("%v after %d charges", err, len(r.charges))
	}
}

// A live record is the answer to its own request alone, and only when its fingerprint
// can be compared.
func TestLiveRecord(t *testing.T) {
	t.Parallel()
	first := newRequest(t)
	live := &payment.Record{PaymentID: "id", Receipt: payment.Receipt{Data: []byte("x")}}
	other, cvc := first, first
	other.Amount++
	cvc.Card.CVC = payment.NewSecret("124")
	for name, tc := range map[string]struct {
		fingerprints *payment.Fingerprints
		request      payment.Request
		err          error
		events       []string
	}{
		"the same request": {secret, first, nil, []string{"replayed"}},
		"another request":  {secret, other, payment.ErrKeyConflict, []string{"conflict"}},
		"another cvc":      {secret, cvc, nil, []string{"replayed"}},
		"no secret":        {payment.NewFingerprints("", ""), first, payment.ErrForeignFingerprint, nil},
	} {
		r := &rig{stored: live, of: secret.Of(first.Canonical())}
		answer, err := r.service(tc.fingerprints).Pay(t.Context(), payment.Key{Value: "k"}, tc.request)
		if !errors.Is(err, tc.err) || len(r.charges) != 0 {
			t.Errorf("%s: %v after %d charges", name, err, len(r.charges))
		}
		if err == nil && (!answer.Replayed || answer.PaymentID != "id" || string(answer.Receipt.Data) != "x") {
			t.Errorf("%s: %+v", name, answer)
		}
		r.wantEvents(t, tc.events...)
	}
}

// An expired card starts no charge. It gets the answer to the charge that was made before
// its month ended, and to a request whose record is live.
func TestExpiredCard(t *testing.T) {
	t.Parallel()
	expired := newRequest(t)
	expired.Card.ExpYear = time.Now().Year() - 1
	r := &rig{held: payment.Held{Now: time.Now()}}
	_, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, expired)
	if err != nil || !r.charges[0].OnlyRepeat {
		t.Errorf("its charge is not settled: %v after %+v", err, r.charges)
	}
	r.fault = payment.ErrNotCharged
	if _, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, expired); fieldOf(t, err) != "card.exp_year" {
		t.Errorf("without a charge: %v", err)
	}
	r.stored, r.of = &payment.Record{}, secret.Of(expired.Canonical())
	if a, err := r.service(secret).Pay(t.Context(), payment.Key{Value: "k"}, expired); err != nil || !a.Replayed {
		t.Errorf("a repeat: %+v, %v", a, err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := &rig{page: make([]payment.Payment, 3)}
	for i := range r.page {
		r.page[i] = payment.Payment{ID: payment.NewID(time.Now()), CreatedAt: time.Now()}
	}
	second := &payment.Position{CreatedAt: r.page[1].CreatedAt, ID: r.page[1].ID}
	for limit, want := range map[int]*payment.Position{2: second, 3: nil, 100: nil} {
		page, next, err := r.service(secret).PaymentsOfRide(t.Context(), "ride", nil, limit)
		if err != nil || len(page) != min(limit, 3) || (next == nil) != (want == nil) || next != nil && *next != *want {
			t.Errorf("limit %d: %d payments, next %v, %v", limit, len(page), next, err)
		}
	}
	for _, limit := range []int{0, -1, 101} {
		if _, _, err := r.service(secret).PaymentsOfRide(t.Context(), "ride", nil, limit); fieldOf(t, err) != "limit" {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
