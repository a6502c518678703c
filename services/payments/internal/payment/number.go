package payment

import (
	"regexp"
	"unicode"
	"unicode/utf8"
)

// The limits of a card number's length (ISO/IEC 7812-1; 13 is the shortest in use).
const (
	minDigits = 13
	maxDigits = 19
)

// HoldsCardNumber reports whether s contains what may be a card number: 13 to 19 digits that pass the Luhn check,
// separated by anything except letters. A run of digits counts as a whole or not at all, because nearly every longer
// number contains a shorter one that passes. UUIDs and dates are skipped: next to an id, one in four dates with a time
// would pass by chance. Callers bound the length of s.
func HoldsCardNumber(s string) bool {
	begin := 0      // of the digits and separators before s[i]
	inWord := false // a letter or a digit is before s[i]

	for i := 0; i < len(s); {
		if !inWord {
			if ends := noCard.FindStringSubmatchIndex(s[i:]); ends != nil {
				for _, head := range ends[4:] {
					if head > 0 && endsWithCardNumber(s[begin:i+head]) {
						return true
					}
				}
				i += ends[3]
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

// noCard matches a UUID or a date at the start of a text, as a whole word. No card number is grouped like them, and
// none begins with 20. But a card number may end in the head of a date, its year or its month, which are groups: in
// 4242-4242-4242-2006-12-30 and 3614-4200-2020-04-12-30 an expiry follows.
var noCard = regexp.MustCompile(`^([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|` +
	`((20[0-9]{2})` + separator + `[01][0-9])` + separator + `[0-3][0-9](?:T[0-2][0-9](?::[0-5][0-9]){2})?|` +
	`(20[0-9]{2}[01][0-9][0-3][0-9])(?:T[0-2][0-9](?:[0-5][0-9]){2})?)(?:$|[^\pL\p{Nd}])`)

// separator matches an ASCII character that is neither letter nor digit.
const separator = `[^0-9A-Za-z[:^ascii:]]`

// endsWithCardNumber is like HoldsCardNumber, for a card number at the end of s, which has no letters. It reads at most
// 19 digits, the last one first, for the check of ISO/IEC 7812-1, annex B.
func endsWithCardNumber(s string) bool {
	digits, sum := 0, 0
	for i := len(s) - 1; i >= 0 && digits < maxDigits; i-- {
		if !isDigit(s[i]) {
			continue
		}
		d := int(s[i]-'0') << (digits % 2) // every second digit counts twice
		sum += d/10 + d%10
		digits++
		if (i == 0 || !isDigit(s[i-1])) && digits >= minDigits && sum%10 == 0 {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAlphanumeric reports whether r is a letter or a digit of any script.
func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
