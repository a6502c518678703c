package payment_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(*testing.T) payment.Repository { return paymenttest.NewMemory() })
}

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

type fixture struct {
	service      *payment.Service
	repository   payment.Repository
	processor    *paymenttest.Processor
	observer     *paymenttest.Observer
	fingerprints *payment.Fingerprints
}

func newFixture(ttl time.Duration) *fixture {
	f := &fixture{
		repository: paymenttest.NewMemory(), processor: &paymenttest.Processor{}, observer: &paymenttest.Observer{},
		fingerprints: payment.NewFingerprints("secret", ""),
	}
	f.build(ttl)
	return f
}

func (f *fixture) build(ttl time.Duration) {
	f.service = payment.NewService(payment.Parts{
		Repository: f.repository, Processor: f.processor, Observer: f.observer, Fingerprints: f.fingerprints, TTL: ttl,
		Currencies: func(c payment.Currency) bool { return c == "EUR" },
		Render: func(p payment.Payment) (payment.Response, error) {
			return payment.Response{Status: http.StatusCreated, Body: []byte(fmt.Sprintf("%s %s %d", p.Status, p.DeclineCode, p.Amount))}, nil
		},
	})
}

func (f *fixture) wantCounts(t *testing.T, settled, replayed, conflicts int) {
	t.Helper()
	if s, r, c := f.observer.Counts(); s != settled || r != replayed || c != conflicts {
		t.Errorf("settled %d, replayed %d, conflicts %d; want %d, %d, %d", s, r, c, settled, replayed, conflicts)
	}
}

func TestPayOnceAndReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	var port payment.PayAPI = f.service
	first, err := port.Pay(t.Context(), "k", newRequest(t))
	if err != nil || first.Replayed || string(first.Body) != "SUCCEEDED  1250" {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := port.Pay(t.Context(), "k", newRequest(t))
	if err != nil || !again.Replayed || !bytes.Equal(again.Body, first.Body) || again.PaymentID != first.PaymentID {
		t.Errorf("%+v, %v", again, err)
	}
	other := newRequest(t)
	other.Amount++
	if _, err := port.Pay(t.Context(), "k", other); !errors.Is(err, payment.ErrKeyConflict) {
		t.Errorf("another amount: %v", err)
	}
	if f.processor.Calls() != 1 {
		t.Errorf("the processor was called %d times", f.processor.Calls())
	}
	f.wantCounts(t, 1, 1, 1)
	if p, err := f.service.Payment(t.Context(), first.PaymentID); err != nil || p.RideID != "ride" || p.Card.Last4 != "4242" {
		t.Errorf("%+v, %v", p, err)
	}
}

// A decline is an answer, and is kept; a fault is none.
func TestDeclineIsKeptFaultIsNot(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	f.processor.Decline = "card_declined"
	for i := range 2 {
		a, err := f.service.Pay(t.Context(), "declined", newRequest(t))
		if err != nil || string(a.Body) != "DECLINED card_declined 1250" || a.Replayed != (i > 0) {
			t.Errorf("%+v, %v", a, err)
		}
	}
	f.processor.Decline = ""
	fail := payment.ErrProcessorTimeout
	f.processor.FailAfter = func(payment.Charge) error { return fail }
	if _, err := f.service.Pay(t.Context(), "k", newRequest(t)); !errors.Is(err, fail) {
		t.Errorf("%v", err)
	}
	// The charge was made: another amount is refused by the processor, the same one settles.
	f.processor.FailAfter = nil
	other := newRequest(t)
	other.Amount++
	if _, err := f.service.Pay(t.Context(), "k", other); !errors.Is(err, payment.ErrKeyConflict) {
		t.Errorf("%v", err)
	}
	if a, err := f.service.Pay(t.Context(), "k", newRequest(t)); err != nil || a.Replayed {
		t.Errorf("%+v, %v", a, err)
	}
	if n := f.processor.Charges(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	f.wantCounts(t, 2, 1, 1)
}

func TestExpiredKeyPaysAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Microsecond)
	for range 3 {
		if a, err := f.service.Pay(t.Context(), "k", newRequest(t)); err != nil || a.Replayed {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if n := f.processor.Charges(); n != 3 {
		t.Errorf("%d charges, want 3", n)
	}
}

// The card's month ends between a charge whose answer was lost and the repeat
// that settles it.
func TestExpiredCardSettlesItsCharge(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	expired := newRequest(t)
	expired.Card.ExpYear = time.Now().Year() - 1
	charge := payment.Charge{Key: payment.ProcessorKey("k", 0), Amount: expired.Amount, Currency: expired.Currency, Card: expired.Card}
	if _, err := f.processor.Charge(t.Context(), charge); err != nil {
		t.Fatal(err)
	}
	if a, err := f.service.Pay(t.Context(), "k", expired); err != nil || a.Replayed {
		t.Errorf("the charge is not settled: %+v, %v", a, err)
	}
	if n := f.processor.Charges(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// The card's month ends between the first request and its repeat.
func TestReplayOutlivesTheCard(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	expired := newRequest(t)
	expired.Card.ExpYear = time.Now().Year() - 1
	if _, err := f.service.Pay(t.Context(), "new", expired); !errors.Is(err, payment.ErrInvalid) {
		t.Errorf("a new payment with an expired card: %v", err)
	}
	fingerprint, err := f.fingerprints.Of(expired)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = f.repository.Settle(t.Context(), payment.Claim{Key: "old", Fingerprint: fingerprint, TTL: time.Hour}, stored)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := f.service.Pay(t.Context(), "old", expired); err != nil || !a.Replayed {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestForeignFingerprintIsNeitherReplayNorConflict(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	if _, err := f.service.Pay(t.Context(), "k", newRequest(t)); err != nil {
		t.Fatal(err)
	}
	f.fingerprints = payment.NewFingerprints("another secret", "")
	f.build(time.Hour)
	if _, err := f.service.Pay(t.Context(), "k", newRequest(t)); !errors.Is(err, payment.ErrForeignFingerprint) {
		t.Errorf("%v", err)
	}
	f.fingerprints = payment.NewFingerprints("another secret", "secret")
	f.build(time.Hour)
	if a, err := f.service.Pay(t.Context(), "k", newRequest(t)); err != nil || !a.Replayed {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	f := newFixture(time.Hour)
	for i := range 5 {
		if _, err := f.service.Pay(t.Context(), payment.Key(fmt.Sprint("k", i)), newRequest(t)); err != nil {
			t.Fatal(err)
		}
	}
	var port payment.LookupAPI = f.service
	seen := 0
	var after *payment.Position
	for _, want := range []int{2, 2, 1} {
		page, next, err := port.PaymentsOfRide(t.Context(), "ride", after, 2)
		if err != nil || len(page) != want || (next == nil) != (want == 1) {
			t.Fatalf("%d payments, next %v, %v", len(page), next, err)
		}
		seen += len(page)
		after = next
	}
	if seen != 5 {
		t.Errorf("%d payments", seen)
	}
	for _, limit := range []int{0, -1, 101} {
		if _, _, err := port.PaymentsOfRide(t.Context(), "ride", nil, limit); !errors.Is(err, payment.ErrInvalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// A repository's own failure reaches the caller of each port unchanged.
func TestPortsPassFailuresOn(t *testing.T) {
	t.Parallel()
	boom := errors.New("the disk is on fire")
	f := newFixture(time.Hour)
	f.repository = paymenttest.Failing{Err: boom}
	f.build(time.Hour)
	_, payErr := f.service.Pay(t.Context(), "k", newRequest(t))
	_, getErr := f.service.Payment(t.Context(), payment.NewID(time.Now()))
	_, _, listErr := f.service.PaymentsOfRide(t.Context(), "ride", nil, 1)
	_, deleteErr := f.repository.DeleteExpired(t.Context(), 1)
	for name, err := range map[string]error{"pay": payErr, "get": getErr, "list": listErr, "delete": deleteErr} {
		if !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.wantCounts(t, 0, 0, 0)
}
