package payment

import (
	"unicode"
	"unicode/utf8"
)

// The limits of a card number's length (ISO/IEC 7812-1; 13 is the shortest in use).
const (
	minDigits = 13
	maxDigits = 19
)

// luhnSum adds up digits, the last one of the number first, for the check of ISO/IEC 7812-1, annex B.
type luhnSum struct{ digits, sum int }

func (l *luhnSum) add(digit byte) {
	d := int(digit - '0')
	if l.digits%2 == 1 {
		d *= 2
		if d > 9 {
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

// HoldsCardNumber reports whether s contains what may be a card number: 13 to 19 digits that pass the Luhn check,
// separated by anything except letters. A run of digits counts as a whole or not at all, because nearly every longer
// number contains a shorter one that passes. UUIDs and dates are skipped: next to an id, one in four dates with a time
// would pass by chance. It takes time proportional to the length of s.
func HoldsCardNumber(s string) bool {
	begin := 0      // of the digits and separators before s[i]
	inWord := false // a letter or a digit is before s[i]

	for i := 0; i < len(s); {
		if !inWord {
			if length, heads := beginsWithNoCard(s[i:]); length > 0 {
				if endsWithCardNumber(s[begin:i+heads[0]]) || endsWithCardNumber(s[begin:i+heads[1]]) {
					return true
				}
				i += length
				begin = i
				continue
			}
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

// endsWithCardNumber is like HoldsCardNumber, for a card number at the end of s, which has no letters. It reads at most
// 19 digits.
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

// beginsWithNoCard returns the length of the UUID or date at the start of s, zero for none. No card number is grouped
// like them, and none begins with 20. But a card number may end in the head of a date, its year or its month: in
// 4242-4242-4242-2006-12-30 and 3614-4200-2020-04-12-30 an expiry follows.
func beginsWithNoCard(s string) (length int, heads [2]int) {
	for _, no := range [...]struct {
		shape string
		heads [2]int
	}{
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", [2]int{}},
		{"2099_19_39T29:59:59", [2]int{4, 7}},
		{"2099_19_39", [2]int{4, 7}},
		{"20991939T295959", [2]int{8, 8}},
		{"20991939", [2]int{8, 8}},
	} {
		if (no.heads[0] == 0 || s[0] == '2') && hasShape(s, no.shape) {
			return len(no.shape), no.heads
		}
	}
	return 0, heads
}

// hasShape reports whether s begins with the shape and no letter or digit follows. A hexadecimal digit of the shape
// stands for itself and all lower ones, and _ for any separator.
func hasShape(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		same := s[i] == shape[i]
		switch {
		case isHex(shape[i]):
			same = isHex(s[i]) && s[i]|0x20 <= shape[i]
		case shape[i] == '_':
			same = s[i] < utf8.RuneSelf && !isAlphanumeric(rune(s[i]))
		}
		if !same {
			return false
		}
	}
	next, _ := utf8.DecodeRuneInString(s[len(shape):])
	return !isAlphanumeric(next)
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAlphanumeric reports whether r is a letter or a digit of any script.
func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
