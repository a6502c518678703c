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
		first := f.Of(newRequest(t))
		for name, change := range map[string]func(*payment.Request){
			"ride": func(r *payment.Request) { r.RideID = "x" }, "rider": func(r *payment.Request) { r.RiderID = "x" },
			"amount": func(r *payment.Request) { r.Amount++ }, "currency": func(r *payment.Request) { r.Currency = "USD" },
			"number": func(r *payment.Request) { r.Card.Number = payment.NewSecret("4000000000000002") },
			"month":  func(r *payment.Request) { r.Card.ExpMonth-- }, "year": func(r *payment.Request) { r.Card.ExpYear++ },
			"cvc": func(r *payment.Request) { r.Card.CVC = payment.NewSecret("124") },
		} {
			r := newRequest(t)
			change(&r)
			if same, err := f.Same(first, r); same != (name == "cvc") || err != nil {
				t.Errorf("another %s: %t, %v", name, same, err)
			}
			if name == "cvc" && !bytes.Equal(f.Of(r).Sum, first.Sum) {
				t.Error("another security code changes the fingerprint of the request")
			}
		}
	}
}

// formed returns a request of constant values, and forms what is hashed of it.
func formed(t *testing.T) (r payment.Request, forms []string) {
	t.Helper()
	r = newRequest(t)
	r.Card.ExpYear = 2030
	return r, []string{
		`{"ride_id":"ride","rider_id":"rider","amount":1250,"currency":"EUR",` +
			`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2030}}`,
		"card 4242424242424242 12 2030", "ride " + `ride rider`,
	}
}

// The stored fingerprints are of these forms, without the security code, and their versions name the algorithm alone.
func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	r, forms := formed(t)
	for secret, version := range map[string]string{"": "sha256-2", "one": "hmac-sha256-2", "two": "hmac-sha256-2"} {
		f := payment.NewFingerprints(secret, "")
		for i, got := range []payment.Fingerprint{f.Of(r), f.OfCard(r.Card), f.OfRide(r.RideID, r.RiderID)} {
			hash := sha256.New()
			if secret != "" {
				hash = hmac.New(sha256.New, []byte(secret))
			}
			hash.Write([]byte(forms[i]))
			if want := hash.Sum(nil); got.Version != version || !bytes.Equal(got.Sum, want) {
				t.Errorf("with the secret %q %s is %s %x, want %s %x", secret, forms[i], got.Version, got.Sum, version, want)
			}
		}
	}
}

// What was made under the present secret, the previous one or none is compared, in any step of a rotation and after a
// start without a secret. A replica without any secret says that it cannot compare a keyed one.
func TestFingerprintSecrets(t *testing.T) {
	t.Parallel()
	r := newRequest(t)
	other := r
	other.RideID, other.Card.ExpMonth = "x", 11
	bare, old := payment.NewFingerprints("", ""), payment.NewFingerprints("one", "")
	for _, f := range []*payment.Fingerprints{
		payment.NewFingerprints("two", "one"), payment.NewFingerprints("one", "two"),
	} {
		for _, made := range []*payment.Fingerprints{bare, old, payment.NewFingerprints("two", "")} {
			for _, asked := range []payment.Request{r, other} {
				request, err1 := f.Same(made.Of(r), asked)
				card, err2 := f.SameCard(made.OfCard(r.Card), asked.Card)
				ride, err3 := f.SameRide(made.OfRide(r.RideID, r.RiderID), asked.RideID, asked.RiderID)
				want := asked == r
				if err := errors.Join(err1, err2, err3); request != want || card != want || ride != want || err != nil {
					t.Errorf("request %t, card %t, ride %t, %v, want %t", request, card, ride, err, want)
				}
			}
		}
	}
	if same, err := old.Same(payment.NewFingerprints("two", "").Of(r), r); same || err != nil {
		t.Errorf("an unknown secret: %t, %v", same, err)
	}
	later := old.Of(r)
	later.Version = "hmac-sha256-3"
	for _, stored := range []payment.Fingerprint{old.Of(r), later} {
		if _, err := bare.Same(stored, r); !errors.Is(err, payment.ErrForeignFingerprint) {
			t.Errorf("%s without a secret: %v", stored.Version, err)
		}
	}
}
