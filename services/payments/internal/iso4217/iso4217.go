// Package iso4217 says which currency codes a ride can be paid in: those of
// ISO 4217 that are legal tender somewhere today.
//
// The list is that of golang.org/x/text/currency. It stems from CLDR 32 (2017), so
// what ISO's maintenance agency has amended since is written out here.
package iso4217

import (
	"golang.org/x/text/currency"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Known returns the check. The codes are gathered once, here.
func Known() payment.Currencies {
	known := make(map[payment.Currency]bool)
	for it := currency.Query(); it.Next(); { // legal tender, no funds, metals or testing codes
		known[payment.Currency(it.Unit().String())] = true
	}
	for _, code := range []payment.Currency{
		"MRU", "STN", // amendments 164 and 165, 2018
		"VES", "VED", // 166, 2018; 170, 2021
		"SLE", // 171, 2022
		"ZWG", // 177, 2024
		"XCG", // 176, 2025
	} {
		known[code] = true
	}
	for _, code := range []payment.Currency{"MRO", "STD", "VEF", "CUC", "HRK", "SLL", "ZWL", "ANG", "BGN"} { // withdrawn since
		delete(known, code)
	}
	return func(c payment.Currency) bool { return known[c] }
}
