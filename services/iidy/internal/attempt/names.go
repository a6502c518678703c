package attempt

import (
	"strings"
	"unicode/utf8"
)

// MaxBytes bounds a list's name and an item together, in bytes. PostgreSQL's
// index takes 2,704 bytes of what cannot be compressed.
const MaxBytes = 2000

// List names a list: 1 to MaxBytes-1 bytes of valid UTF-8 without NUL and line
// breaks (LF, CR).
type List string

// NewList checks s. The error wraps ErrInvalidList or ErrTooLong and does not repeat s.
func NewList(s string) (List, error) {
	switch {
	case s == "":
		return "", invalid(ErrInvalidList, "it is empty")
	case len(s) >= MaxBytes:
		return "", invalid(ErrTooLong, "the list's name has %d bytes, and together with an item at most %d are allowed", len(s), MaxBytes)
	case !utf8.ValidString(s):
		return "", invalid(ErrInvalidList, "it is not valid UTF-8")
	case strings.ContainsAny(s, "\x00\n\r"):
		return "", invalid(ErrInvalidList, "it holds a NUL or a line break")
	}
	return List(s), nil
}

// Item is one thing to be done: 1 byte or more of valid UTF-8 without NUL and
// line breaks (LF, CR), compared byte by byte.
type Item string

// CheckItem tells whether s may be an item of the list. The error wraps
// ErrInvalidItem or ErrTooLong and does not repeat s.
func CheckItem(list List, s []byte) error {
	switch {
	case len(s) == 0:
		return invalid(ErrInvalidItem, "it is empty")
	case len(list)+len(s) > MaxBytes:
		return invalid(ErrTooLong, "it and the list's name have %d bytes together, at most %d are allowed", len(list)+len(s), MaxBytes)
	}
	ascii := true
	for _, c := range s {
		switch {
		case c > '\r' && c < utf8.RuneSelf:
		case c == 0:
			return invalid(ErrInvalidItem, "it holds a NUL")
		case c == '\n', c == '\r':
			return invalid(ErrInvalidItem, "it holds a line break")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !utf8.Valid(s) {
		return invalid(ErrInvalidItem, "it is not valid UTF-8")
	}
	return nil
}

// NewItem checks s as CheckItem does.
func NewItem(list List, s string) (Item, error) {
	if err := CheckItem(list, []byte(s)); err != nil {
		return "", err
	}
	return Item(s), nil
}

// Claim names what one Claim call was given: a UUID in its usual form, lower case.
// The empty one stands for no claim.
type Claim string

// NewClaim checks s. The error wraps ErrInvalidClaim.
func NewClaim(s string) (Claim, error) {
	const length = 36
	ok := len(s) == length
	for i := 0; ok && i < length; i++ {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			ok = c == '-'
		default:
			ok = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
		}
	}
	if !ok {
		return "", invalid(ErrInvalidClaim, "it is not a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
	}
	return Claim(strings.ToLower(s)), nil
}
