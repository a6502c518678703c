package payment_test

import (
	"testing"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// A value that is a card number as a whole is refused, and an id that holds a long number is none.
func TestCardNumbersAreNoKeys(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		good: true, "4242-4242-4242-4242": true, "4242 4242 4242 4242": true, "4242/4242,,4242_4242": true,
		"3782-822463-10005": true, "6304000000000000000": true, "2200 0000 0000 0053": true, "4222222222222": true,
		"-4242424242424242-":                 true,
		"4242\u00a04242\u20114242\u30004242": true,
		// A wrong check digit, another length, no issuer's range.
		"4242424242424241": false, "424242424242": false, "42424242424242424242": false, "411111111111111112": false,
		"1764300000000000003": false, "": false, "-": false,
		// Letters, also those of ids.
		"a" + good: false, "order 7: " + good: false, "k-1764300000000000003-1": false,
		"42424242-4242-4242-4242-42424242424a": false, "42424242-4242-4242-4242-424242424242": false,
	} {
		key, err := payment.NewKey("shop", s)
		if (err != nil) != want || err == nil && key != (payment.Key{Caller: "shop", Value: s}) {
			t.Errorf("%.60q: %v, %v, want refused: %t", s, key, err, want)
		}
		if err != nil && fieldOf(t, err) != "Idempotency-Key" {
			t.Errorf("%.60q: %v", s, err)
		}
	}
}
