package payment

import (
	"strings"
	"unicode"
)

// The limits of a card number's length (ISO/IEC 7812-1; 13 is the shortest in use).
const (
	minDigits = 13
	maxDigits = 19
)

// isCardNumber reports whether the whole of s is a card number: 13 to 19 digits with any separators, in an issuer's
// range and of its length, that pass the Luhn check. A text with letters is none: one in ten numbers passes by chance,
// and ids hold nanoseconds.
func isCardNumber(s string) bool {
	if strings.ContainsFunc(s, unicode.IsLetter) {
		return false
	}
	number := digitsOf(s)
	if len(number) < minDigits || len(number) > maxDigits {
		return false
	}
	_, issued := issuer(number)
	return issued && passesLuhn(number)
}

// isIn reports whether the digits of s hold the card's number, whatever stands between them.
func (c Card) isIn(s string) bool {
	return c.Number.text != "" && strings.Contains(digitsOf(s), c.Number.text)
}

// digitsOf returns the digits of s.
func digitsOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// passesLuhn makes the check of ISO/IEC 7812-1, annex B.
func passesLuhn(number string) bool {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i]-'0') << (i % 2) // every second digit from the end counts twice
		sum += d/10 + d%10
	}
	return sum%10 == 0
}
