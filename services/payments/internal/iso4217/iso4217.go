// Package iso4217 knows the currency codes of ISO 4217 that are legal tender today.
//
// The list comes from golang.org/x/text/currency (CLDR 32, 2017), with the later amendments
// of ISO's maintenance agency.
package iso4217

import (
	"golang.org/x/text/currency"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Known returns a payment.Currencies that reports whether a code is in the list.
func Known() payment.Currencies {
	known := make(map[payment.Currency]bool)
	for it := currency.Query(); it.Next(); { // legal tender, no funds, metals or testing codes
		known[payment.Currency(it.Unit().String())] = true
	}

	// Amendments since, by number and year.
	for _, code := range []payment.Currency{
		"MRU", "STN", // amendments 164 and 165, 2018
		"VES", "VED", // 166, 2018; 170, 2021
		"SLE", // 171, 2022
		"ZWG", // 177, 2024
		"XCG", // 176, 2025
	} {
		known[code] = true
	}

	withdrawn := []payment.Currency{"MRO", "STD", "VEF", "CUC", "HRK", "SLL", "ZWL", "ANG", "BGN"}
	for _, code := range withdrawn {
		delete(known, code)
	}

	return func(c payment.Currency) bool { return known[c] }
}
