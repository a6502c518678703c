package payment

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Secret holds text that must not be printed: a card number or a security code.
// Formatting, logging and encoding give three asterisks; only Reveal returns the text.
type Secret struct{ text string }

const masked = "***"

// NewSecret returns a secret that holds text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text, for the processor and for hashes.
func (s Secret) Reveal() string { return s.text }

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText implements encoding.TextMarshaler, which loggers and JSON use.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Card is the card to charge.
type Card struct {
	Number   Secret
	ExpMonth int
	ExpYear  int
	CVC      Secret
}

// CardFace holds the parts of a card that may be stored and shown.
type CardFace struct {
	Brand    string
	Last4    string
	ExpMonth int
	ExpYear  int
}

// The names of the card's fields in a request.
const (
	fieldNumber   = "card.number"
	fieldExpMonth = "card.exp_month"
	fieldExpYear  = "card.exp_year"
	fieldCVC      = "card.cvc"
)

// The years in which a card may expire, in four digits.
const (
	minYear = 2000
	maxYear = 2099
)

// NewCard checks what does not depend on the time: the number has 13 to 19 digits and
// passes the Luhn check, the month is 1 to 12, the year has four digits, and the security
// code three (four for American Express). The error is an *InvalidError.
func NewCard(number string, expMonth, expYear int, cvc string) (Card, error) {
	switch {
	case digitsOf(number) != number || len(number) < minDigits || len(number) > maxDigits:
		return Card{}, invalid(fieldNumber, "must be 13 to 19 digits without separators")
	case !passesLuhn(number):
		return Card{}, invalid(fieldNumber, "is mistyped: its check digit is wrong")
	case expMonth < 1 || expMonth > 12:
		return Card{}, invalid(fieldExpMonth, "must be 1 to 12")
	case expYear < minYear || expYear > maxYear:
		return Card{}, invalid(fieldExpYear, "must be a year of four digits, 2000 to 2099")
	case digitsOf(cvc) != cvc || len(cvc) != cvcDigits(brand(number)):
		return Card{}, invalid(fieldCVC, "must be three digits, four for American Express")
	}
	return Card{Number: Secret{number}, ExpMonth: expMonth, ExpYear: expYear, CVC: Secret{cvc}}, nil
}

// farthestWest is the offset of the time zone in which a month ends last (UTC-12).
const farthestWest = 12 * time.Hour

// CheckExpiry returns an *InvalidError if the card's month was over in every time zone at
// now.
func (c Card) CheckExpiry(now time.Time) error {
	end := time.Date(c.ExpYear, time.Month(c.ExpMonth)+1, 1, 0, 0, 0, 0, time.UTC).Add(farthestWest)
	if now.Before(end) {
		return nil
	}
	if now.UTC().Year() > c.ExpYear {
		return invalid(fieldExpYear, "says that the card has expired")
	}
	return invalid(fieldExpMonth, "says that the card has expired")
}

// Face returns the parts that may be stored and shown.
func (c Card) Face() CardFace {
	number := c.Number.text
	return CardFace{Brand: brand(number), Last4: number[len(number)-4:], ExpMonth: c.ExpMonth, ExpYear: c.ExpYear}
}

// brandAmex is the only brand with security codes of four digits. unknownBrand stands for all that are not told apart.
const (
	brandAmex    = "amex"
	unknownBrand = "unknown"
)

// brand returns the card scheme of a number, or "unknown".
func brand(number string) string {
	name, _ := issuer(number)
	return name
}

// issuer returns the card scheme for the number's first digits (issuer ranges of ISO/IEC
// 7812) and length, and whether the number is in such a range.
func issuer(number string) (name string, issued bool) {
	prefix, _ := strconv.Atoi(number[:4]) // these are digits
	for _, r := range []struct {
		from, to int
		name     string
		lengths  string
	}{
		{3400, 3499, brandAmex, "15"},
		{3700, 3799, brandAmex, "15"},
		{3000, 3059, "diners", "14 15 16 17 18 19"},
		{3095, 3095, "diners", "14 15 16 17 18 19"},
		{3600, 3699, "diners", "14 15 16 17 18 19"},
		{3800, 3999, "diners", "14 15 16 17 18 19"},
		{3528, 3589, "jcb", "16 17 18 19"},
		{4000, 4999, "visa", "13 16 19"},
		{2221, 2720, "mastercard", "16"},
		{5100, 5599, "mastercard", "16"},
		{6011, 6011, "discover", "16 17 18 19"},
		{6440, 6599, "discover", "16 17 18 19"},
		{6200, 6299, "unionpay", "16 17 18 19"},
		{2200, 2204, unknownBrand, "16 17 18 19"},          // Mir
		{5000, 5099, unknownBrand, "13 14 15 16 17 18 19"}, // Maestro
		{5600, 6999, unknownBrand, "13 14 15 16 17 18 19"}, // Maestro, RuPay
		{8100, 8299, unknownBrand, "16"},                   // RuPay
	} {
		if r.from <= prefix && prefix <= r.to && strings.Contains(r.lengths, strconv.Itoa(len(number))) {
			return r.name, true
		}
	}
	return unknownBrand, false
}

func cvcDigits(brand string) int {
	if brand == brandAmex {
		return 4
	}
	return 3
}
