package payment_test

import (
	"context"
	"errors"
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

func newRequest(t *testing.T) payment.Request {
	t.Helper()
	r, err := payment.NewRequest("ride", "rider", 1250, "EUR", newCard(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rig is a service whose outbound ports answer as its fields say. The repository returns
// live, if there is one, and otherwise lets each caller own its key; every method of it
// fails with err. The processor records what it is asked.
type rig struct {
	live    *payment.Record
	claimed payment.Claimed
	page    []payment.Payment
	err     error
	result  payment.Result
	fault   error

	settled payment.Settlement
	charges []payment.Charge
	events  []string
}

func (r *rig) service(f *payment.Fingerprints) *payment.Service {
	return payment.NewService(payment.Parts{
		Repository: r, Processor: processorOf{r}, Observer: r, Fingerprints: f, TTL: time.Hour,
		Currencies: func(c payment.Currency) bool { return c == "EUR" },
	})
}

func (r *rig) Settle(ctx context.Context, c payment.Claim, charge payment.ChargeFunc) (payment.Record, bool, error) {
	if r.err != nil {
		return payment.Record{}, false, r.err
	}
	if r.live != nil {
		return *r.live, false, nil
	}
	var err error
	if r.settled, err = charge(ctx, r.claimed); err != nil {
		return payment.Record{}, false, err
	}
	return payment.Record{Fingerprint: c.Fingerprint, PaymentID: r.settled.Payment.ID}, true, nil
}

func (r *rig) Find(context.Context, payment.ID) (payment.Payment, error) {
	return r.settled.Payment, r.err
}

func (r *rig) FindOfRide(_ context.Context, _ payment.RideID, _ *payment.Position, n int) ([]payment.Payment, error) {
	return r.page[:min(n, len(r.page))], r.err
}

func (r *rig) DeleteExpired(context.Context, int) (int, error) { return 0, r.err }

func (r *rig) Charge(_ context.Context, c payment.Charge) (payment.Result, error) {
	r.charges = append(r.charges, c)
	return r.result, r.fault
}

// processorOf is the rig as a processor, which finds what it would charge.
type processorOf struct{ *rig }

func (r processorOf) Find(context.Context, payment.Charge) (payment.Result, error) {
	return r.result, r.fault
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

var secret = payment.NewFingerprints("secret", "") //nolint:gochecknoglobals // immutable

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
		r.claimed = payment.Claimed{Earlier: 2, Now: time.Now().UTC()}
		answer, err := r.service(secret).Pay(t.Context(), "k", request)
		p := r.settled.Payment
		if err != nil || answer.Replayed || answer.PaymentID != p.ID {
			t.Errorf("%+v, %v", answer, err)
		}
		want := payment.Payment{
			ID: p.ID, RideID: "ride", RiderID: "rider", Amount: 1250, Currency: "EUR",
			Status: tc.status, DeclineCode: tc.decline,
			Card: request.Card.Face(), CreatedAt: r.claimed.Now,
		}
		key := payment.ProcessorKey("k", 2)
		charge := payment.Charge{
			Key: key, RideID: "ride", RiderID: "rider", Amount: 1250, Currency: "EUR", Card: request.Card,
		}
		if p != want || r.settled.ProcessorKey != key || !slices.Equal(r.charges, []payment.Charge{charge}) {
			t.Errorf("settled %+v after %+v, want %+v after %+v", r.settled, r.charges, want, charge)
		}
		r.wantEvents(t, string(tc.status))
	}
}

func TestUnknownCurrencyIsRefused(t *testing.T) {
	t.Parallel()
	r, request := &rig{}, newRequest(t)
	request.Currency = "ABC"
	if _, err := r.service(secret).Pay(t.Context(), "k", request); fieldOf(t, err) != "currency" || len(r.charges) != 0 {
		t.Errorf("%v after %d charges", err, len(r.charges))
	}
}

// A live record is the answer to its own request alone, and only when its fingerprint
// can be compared.
func TestLiveRecord(t *testing.T) {
	t.Parallel()
	first := newRequest(t)
	live := &payment.Record{Fingerprint: secret.Of(first), PaymentID: "id", Receipt: payment.Receipt{Data: []byte("x")}}
	other, cvc := first, first
	other.Amount++
	cvc.Card.CVC = payment.NewSecret("124")
	for name, tc := range map[string]struct {
		fingerprints *payment.Fingerprints
		request      payment.Request
		err          error
		events       []string
	}{
		"the same request":  {secret, first, nil, []string{"replayed"}},
		"another request":   {secret, other, payment.ErrKeyConflict, []string{"conflict"}},
		"another cvc":       {secret, cvc, nil, []string{"replayed"}},
		"an unknown secret": {payment.NewFingerprints("another", ""), first, payment.ErrKeyConflict, []string{"conflict"}},
		"no secret":         {payment.NewFingerprints("", ""), first, payment.ErrForeignFingerprint, nil},
		"a rotated secret":  {payment.NewFingerprints("another", "secret"), first, nil, []string{"replayed"}},
	} {
		r := &rig{live: live}
		answer, err := r.service(tc.fingerprints).Pay(t.Context(), "k", tc.request)
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
	r := &rig{claimed: payment.Claimed{Now: time.Now()}}
	if _, err := r.service(secret).Pay(t.Context(), "k", expired); err != nil || !r.charges[0].OnlyRepeat {
		t.Errorf("its charge is not settled: %v after %+v", err, r.charges)
	}
	r.fault = payment.ErrNotCharged
	if _, err := r.service(secret).Pay(t.Context(), "k", expired); fieldOf(t, err) != "card.exp_year" {
		t.Errorf("without a charge: %v", err)
	}
	r.live = &payment.Record{Fingerprint: secret.Of(expired)}
	if a, err := r.service(secret).Pay(t.Context(), "k", expired); err != nil || !a.Replayed {
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

// A failure of the repository or of the processor reaches the caller unchanged and is
// not counted as a payment.
func TestPortsReturnFailures(t *testing.T) {
	t.Parallel()
	boom := errors.New("the disk is on fire")
	broken, faulty := &rig{err: boom}, &rig{fault: payment.ErrProcessorTimeout}
	_, payErr := broken.service(secret).Pay(t.Context(), "k", newRequest(t))
	_, getErr := broken.service(secret).Payment(t.Context(), payment.NewID(time.Now()))
	_, _, listErr := broken.service(secret).PaymentsOfRide(t.Context(), "ride", nil, 1)
	for name, err := range map[string]error{"pay": payErr, "get": getErr, "list": listErr} {
		if !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := faulty.service(secret).Pay(t.Context(), "k", newRequest(t))
	if !errors.Is(err, payment.ErrProcessorTimeout) {
		t.Errorf("%v", err)
	}
	broken.wantEvents(t)
	faulty.wantEvents(t)
}
