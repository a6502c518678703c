package payment_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
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
	for secret, version := range map[string]string{"": "sha256-2", "one": "hmac-sha256-2", "two": "hmac-sha256-2"} {
		hash := sha256.New()
		if secret != "" {
			hash = hmac.New(sha256.New, []byte(secret))
		}
		hash.Write([]byte("form"))
		got := payment.NewFingerprints(secret, "").Of([]byte("form"))
		if want := hash.Sum(nil); got.Version != version || !bytes.Equal(got.Sum, want) {
			t.Errorf("with the secret %q: %s %x, want %s %x", secret, got.Version, got.Sum, version, want)
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
