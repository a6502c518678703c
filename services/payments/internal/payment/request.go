package payment

import (
	"strings"
	"unicode/utf8"
)

// Request asks for a ride to be paid. [NewRequest] makes one, of checked values.
type Request struct {
	RideID   RideID
	RiderID  string
	Amount   int64 // minor units: cents of a euro, whole yen
	Currency Currency
	Card     Card
}

// RideID names a ride by 1 to 64 characters of A-Z a-z 0-9 . _ : - that hold no card
// number.
type RideID string

// Currency is a code of three upper-case letters. [Currencies] reports whether ISO 4217
// has it.
type Currency string

// Currencies is the outbound port to the list of currencies. It reports whether ISO
// 4217 has the code.
type Currencies func(Currency) bool

// MaxAmount is the largest amount, in minor units.
const MaxAmount = 1_000_000_000_000

// The names of the fields, as a client writes them.
const (
	// FieldRideID names the member and the query parameter.
	FieldRideID   = "ride_id"
	fieldRiderID  = "rider_id"
	fieldAmount   = "amount"
	fieldCurrency = "currency"
	// FieldKey names the header.
	FieldKey = "Idempotency-Key"
)

// NewRequest checks the values; the error is an *InvalidError.
func NewRequest(rideID, riderID string, amount int64, currency string, card Card) (Request, error) {
	ride, err := NewRideID(rideID)
	if err != nil {
		return Request{}, err
	}
	if err := checkReference(fieldRiderID, riderID); err != nil {
		return Request{}, err
	}
	if amount < 1 || amount > MaxAmount {
		return Request{}, invalid(fieldAmount, "must be 1 to 1000000000000 minor units")
	}
	if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return Request{}, invalid(fieldCurrency, "must be three upper-case letters of ISO 4217")
	}
	return Request{RideID: ride, RiderID: riderID, Amount: amount, Currency: Currency(currency), Card: card}, nil
}

// NewRideID checks s; the error is an *InvalidError.
func NewRideID(s string) (RideID, error) {
	if err := checkReference(FieldRideID, s); err != nil {
		return "", err
	}
	return RideID(s), nil
}

// checkReference checks the rules that ride_id and rider_id share. Both are stored and
// shown, so neither may hold a card number.
func checkReference(field, s string) error {
	const longest = 64
	if s == "" || len(s) > longest {
		return invalid(field, "must have 1 to 64 characters")
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || !isAlphanumeric(rune(s[i])) && strings.IndexByte("._:-", s[i]) < 0 {
			return invalid(field, "may hold letters, digits and . _ : - only")
		}
	}
	if HoldsCardNumber(s) {
		return invalid(field, "must not hold a card number")
	}
	return nil
}

// Key is an idempotency key: 1 to 255 printable characters of ASCII that hold no card
// number. Its scope is PayAPI.Pay.
type Key string

// NewKey parses the value of the header, bare or quoted: "abc" in quotes is a string of
// RFC 9651 and the same key as abc. The error is an *InvalidError.
func NewKey(header string) (Key, error) {
	const longest = 255
	key, ok := header, true
	if strings.HasPrefix(header, `"`) {
		key, ok = unquote(header)
	}
	switch {
	case !ok:
		return "", invalid(FieldKey, "begins with a quote and is not a well-formed quoted string")
	case key == "" || len(key) > longest:
		return "", invalid(FieldKey, "must have 1 to 255 characters")
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", invalid(FieldKey, "must be printable characters of ASCII")
		}
	}
	if HoldsCardNumber(key) {
		return "", invalid(FieldKey, "must not hold a card number")
	}
	return Key(key), nil
}

// unquote decodes a string of RFC 9651, section 3.3.3.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
