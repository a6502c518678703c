package payment_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The security code has no part in what is stored; every other value has.
func TestFingerprintTellsRequestsApart(t *testing.T) {
	t.Parallel()
	for _, f := range []*payment.Fingerprints{payment.NewFingerprints("", ""), payment.NewFingerprints("s", "")} {
		first := f.Of(newRequest(t).Canonical())
		for name, change := range map[string]func(*payment.Request){
			"ride": func(r *payment.Request) { r.RideID = "x" }, "rider": func(r *payment.Request) { r.RiderID = "x" },
			"amount": func(r *payment.Request) { r.Amount++ }, "currency": func(r *payment.Request) { r.Currency = "USD" },
			"number": func(r *payment.Request) { r.Card.Number = payment.NewSecret("4000000000000002") },
			"month":  func(r *payment.Request) { r.Card.ExpMonth-- }, "year": func(r *payment.Request) { r.Card.ExpYear++ },
			"cvc": func(r *payment.Request) { r.Card.CVC = payment.NewSecret("124") },
		} {
			r := newRequest(t)
			change(&r)
			if same, err := f.Same(first, r.Canonical()); same != (name == "cvc") || err != nil {
				t.Errorf("another %s: %t, %v", name, same, err)
			}
			if name == "cvc" && !bytes.Equal(f.Of(r.Canonical()).Sum, first.Sum) {
				t.Error("another security code changes the fingerprint of the request")
			}
		}
	}
}

// The stored fingerprints are of these forms, without the security code, and their versions name the algorithm alone.
func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	r := newRequest(t)
	r.Card.ExpYear = 2030
	for want, got := range map[string][]byte{
		`{"ride_id":"ride","rider_id":"rider","amount":1250,"currency":"EUR",` +
			`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2030}}`: r.Canonical(),
		"card 4242424242424242 12 2030": r.Card.Canonical(), "ride ride rider": payment.CanonicalRide(r.RideID, r.RiderID),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for secret, want := range map[string]string{ // printf form | openssl dgst -sha256 [-hmac one]
		"":    "sha256-2 07397d633f25a7101990a75864ae03d5a3b9ac07c4ed6accbc52cbfd7d7c13b4",
		"one": "hmac-sha256-2 f8540f8d9d6d167bb53065ece1c5d7bedef79538c58b96c4964971d3c955cf55",
	} {
		f := payment.NewFingerprints(secret, "").Of([]byte("form"))
		if got := fmt.Sprintf("%s %x", f.Version, f.Sum); got != want {
			t.Errorf("with the secret %q: %s, want %s", secret, got, want)
		}
	}
}

// What was made under the present secret, the previous one or none is compared, in any step of a rotation and after a
// start without a secret. A replica without any secret says that it cannot compare a keyed one.
func TestFingerprintSecrets(t *testing.T) {
	t.Parallel()
	form, other := []byte("form"), []byte("other")
	bare, old := payment.NewFingerprints("", ""), payment.NewFingerprints("one", "")
	for _, f := range []*payment.Fingerprints{
		payment.NewFingerprints("two", "one"), payment.NewFingerprints("one", "two"),
	} {
		for _, made := range []*payment.Fingerprints{bare, old, payment.NewFingerprints("two", "")} {
			same, err := f.Same(made.Of(form), form)
			another, err2 := f.Same(made.Of(form), other)
			if err := errors.Join(err, err2); !same || another || err != nil {
				t.Errorf("the same form: %t, another: %t, %v", same, another, err)
			}
		}
	}
	if same, err := old.Same(payment.NewFingerprints("two", "").Of(form), form); same || err != nil {
		t.Errorf("an unknown secret: %t, %v", same, err)
	}
	later := old.Of(form)
	later.Version = "hmac-sha256-3"
	for _, stored := range []payment.Fingerprint{old.Of(form), later} {
		if _, err := bare.Same(stored, form); !errors.Is(err, payment.ErrForeignFingerprint) {
			t.Errorf("%s without a secret: %v", stored.Version, err)
		}
	}
}
