package payment

import (
	"unicode"
	"unicode/utf8"
)

// The bounds of a card number's length (ISO/IEC 7812-1; 13 is the shortest in use).
const (
	minDigits = 13
	maxDigits = 19
)

// luhnSum adds up digits, the last one of the number first, for the check of ISO/IEC 7812-1, annex B.
type luhnSum struct{ digits, sum int }

func (l *luhnSum) add(digit byte) {
	d := int(digit - '0')
	if l.digits%2 == 1 {
		if d *= 2; d > 9 {
			d -= 9
		}
	}
	l.sum += d
	l.digits++
}

func (l *luhnSum) passes() bool { return l.sum%10 == 0 }

// luhn reports whether the digits pass the check.
func luhn(digits string) bool {
	var l luhnSum
	for i := range len(digits) {
		l.add(digits[len(digits)-1-i])
	}
	return l.passes()
}

// HoldsCardNumber reports whether s holds what may be a card number: 13 to 19 digits that pass the Luhn check, with
// any characters but letters between them. Digits that stand side by side count together or not at all, because nearly
// every longer number contains a shorter one that passes. A UUID is skipped: one in a few hundred would pass by chance.
// It takes time in proportion to the length of s.
func HoldsCardNumber(s string) bool {
	begin := 0      // of the digits and separators that stand before s[i]
	inWord := false // a letter or a digit stands before s[i]
	for i := 0; i < len(s); {
		if !inWord && beginsWithUUID(s[i:]) {
			i += uuidLength
			begin = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		digit := isDigit(s[i])
		i += size
		inWord = isAlphanumeric(r)
		switch {
		case digit && (i == len(s) || !isDigit(s[i])):
			if endsWithCardNumber(s[begin:i]) {
				return true
			}
		case inWord && !digit:
			begin = i
		}
	}
	return false
}

// endsWithCardNumber does what HoldsCardNumber does, for a card number that ends where s ends. s holds no letters. It
// reads 19 digits at most.
func endsWithCardNumber(s string) bool {
	var check luhnSum
	for i := len(s) - 1; i >= 0 && check.digits < maxDigits; i-- {
		if !isDigit(s[i]) {
			continue
		}
		check.add(s[i])
		if (i == 0 || !isDigit(s[i-1])) && check.digits >= minDigits && check.passes() {
			return true
		}
	}
	return false
}

const uuidLength = len("00000000-0000-0000-0000-000000000000")

// beginsWithUUID reports whether s begins with a UUID that no letter or digit follows.
func beginsWithUUID(s string) bool {
	if len(s) < uuidLength {
		return false
	}
	for i := range uuidLength {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return false
			}
		}
	}
	next, _ := utf8.DecodeRuneInString(s[uuidLength:])
	return len(s) == uuidLength || !isAlphanumeric(next)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAlphanumeric reports whether r is a letter or a digit of any script.
func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
