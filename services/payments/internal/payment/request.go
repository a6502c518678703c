package payment

import "strings"

// Fare is what is to be paid for a ride.
type Fare struct {
	RideID   RideID
	RiderID  string
	Amount   int64 // minor units: cents of a euro, whole yen
	Currency Currency
}

// Request asks for a ride to be paid. [NewRequest] makes one from checked values.
type Request struct {
	Fare

	Card Card
}

// RideID names a ride by 1 to 64 of the characters A-Z a-z 0-9 . _ : - that are no card
// number.
type RideID string

// Currency is a code of three upper-case letters. [Currencies] reports whether it is in
// ISO 4217.
type Currency string

// Currencies is the outbound port to the list of currencies. It reports whether the code
// is in ISO 4217.
type Currencies func(Currency) bool

// MaxAmount is the largest amount, in minor units.
const MaxAmount = 1_000_000_000_000

// The names of the fields in a request.
const (
	// FieldRideID names the member and the query parameter.
	FieldRideID   = "ride_id"
	fieldRiderID  = "rider_id"
	fieldAmount   = "amount"
	fieldCurrency = "currency"
	// FieldKey names the header.
	FieldKey = "Idempotency-Key"
)

const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// NewRequest checks the values; the error is an *InvalidError.
func NewRequest(rideID, riderID string, amount int64, currency string, card Card) (Request, error) {
	ride, err := NewRideID(rideID)
	if err != nil {
		return Request{}, err
	}
	if err := checkReference(fieldRiderID, riderID); err != nil {
		return Request{}, err
	}
	switch {
	case card.isIn(rideID):
		return Request{}, invalid(FieldRideID, holdsNumber)
	case card.isIn(riderID):
		return Request{}, invalid(fieldRiderID, holdsNumber)
	}
	if amount < 1 || amount > MaxAmount {
		return Request{}, invalid(fieldAmount, "must be 1 to 1000000000000 minor units")
	}
	if len(currency) != 3 || strings.Trim(currency, upper) != "" {
		return Request{}, invalid(fieldCurrency, "must be three upper-case letters of ISO 4217")
	}
	return Request{Fare: Fare{ride, riderID, amount, Currency(currency)}, Card: card}, nil
}

// NewRideID checks s; the error is an *InvalidError.
func NewRideID(s string) (RideID, error) {
	if err := checkReference(FieldRideID, s); err != nil {
		return "", err
	}
	return RideID(s), nil
}

// holdsNumber completes the sentence about a value that holds a card number: it would be stored and shown.
const holdsNumber = "must not hold a card number"

// checkReference checks the rules of ride_id and rider_id, apart from the request's own
// card number.
func checkReference(field, s string) error {
	const longest, allowed = 64, "abcdefghijklmnopqrstuvwxyz" + upper + "0123456789._:-"
	switch {
	case s == "" || len(s) > longest:
		return invalid(field, "must have 1 to 64 characters")
	case strings.Trim(s, allowed) != "":
		return invalid(field, "may contain only letters, digits and . _ : -")
	case isCardNumber(s):
		return invalid(field, holdsNumber)
	}
	return nil
}

// Key is the idempotency key of a caller: the same Value of two callers is two keys. Its scope is Service.Pay.
type Key struct {
	// Caller separates the keys of different systems. It is empty when callers are not identified: all requests without a
	// caller share their keys.
	Caller string
	// Value is no card number; platform/idempotency has the rest of its grammar.
	Value string
}

// NewKey checks the value of a key; the error is an *InvalidError.
func NewKey(caller, value string) (Key, error) {
	if isCardNumber(value) {
		return Key{}, invalid(FieldKey, holdsNumber)
	}
	return Key{Caller: caller, Value: value}, nil
}
