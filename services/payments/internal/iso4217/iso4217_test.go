package iso4217_test

import (
	"testing"

	"github.com/rowlock/rowlock/services/payments/internal/iso4217"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	known := iso4217.Known()
	for code, want := range map[payment.Currency]bool{
		"EUR": true, "USD": true, "JPY": true, "KWD": true, "XAF": true, "CHF": true, "VES": true, "SLE": true, "XCG": true,
		"DEM": false, "HRK": false, "BGN": false, // replaced by the euro
		"XXX": false, "XTS": false, "XAU": false, "CHE": false, // no currency, testing, gold, a fund
		"eur": false, "Eur": false, "EU": false, "EURO": false, "BTC": false, "": false, "ABC": false,
	} {
		if known(code) != want {
			t.Errorf("%q: %t, want %t", code, known(code), want)
		}
	}
}
