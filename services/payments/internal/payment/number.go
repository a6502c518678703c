package payment

// The bounds of a card number's length (ISO/IEC 7812-1; 13 is the shortest in use).
const (
	minDigits = 13
	maxDigits = 19
)

// luhn reports whether the digits pass the check of ISO/IEC 7812-1, annex B.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// HoldsCardNumber reports whether s holds what may be a card number: a run of 13 to
// 19 digits that passes the Luhn check, in one piece or in groups of four to six
// digits with one separator between them. Only whole runs count: nearly every longer
// number contains a shorter one that passes the check.
func HoldsCardNumber(s string) bool {
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			i++
			continue
		}
		end := i
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if length := end - i; minDigits <= length && length <= maxDigits && luhn(s[i:end]) {
			return true
		}
		if grouped(s, i) {
			return true
		}
		i = end
	}
	return false
}

// grouped reports whether a card number in groups begins at s[i]. Neither a letter nor
// a digit may stand before or behind it, which excludes the groups of a UUID.
func grouped(s string, i int) bool {
	if i > 0 && isAlphanumeric(s[i-1]) || i > 1 && isSeparator(s[i-1]) && isDigit(s[i-2]) {
		return false // in the middle of something
	}
	var digits [maxDigits]byte
	count, groups, separator := 0, 0, byte(0)
	for {
		start := i
		for i < len(s) && isDigit(s[i]) && count < maxDigits {
			digits[count] = s[i]
			count++
			i++
		}
		last := i == len(s) || !isSeparator(s[i]) || separator != 0 && s[i] != separator ||
			i+1 == len(s) || !isDigit(s[i+1])
		// The last group of a 19-digit number has three digits.
		if length := i - start; length > 6 || length < 3 || length == 3 && !last {
			return false
		}
		groups++
		if last {
			return groups > 1 && count >= minDigits && (i == len(s) || !isAlphanumeric(s[i])) && luhn(string(digits[:count]))
		}
		separator = s[i]
		i++
	}
}

func isSeparator(c byte) bool {
	return c == ' ' || c == '-' || c == '.' || c == '_' || c == ':'
}

func isAlphanumeric(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z'
}
