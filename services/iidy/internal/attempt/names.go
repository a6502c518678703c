package attempt

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxBytes limits a list's name and an item together, in bytes. An index entry of
// PostgreSQL holds 2,704 bytes of incompressible data.
const MaxBytes = 2000

// List names a list: 1 to MaxBytes-1 bytes of valid UTF-8 without NUL and line
// breaks (LF, CR).
type List string

// check returns an error that wraps ErrInvalidList or ErrTooLong and does not
// repeat the name.
func (l List) check() error {
	switch {
	case l == "":
		return invalid(ErrInvalidList, "it is empty")
	case len(l) >= MaxBytes:
		return invalid(ErrTooLong, "the list's name has %d bytes, and together with an item at most %d are allowed",
			len(l), MaxBytes)
	case !utf8.ValidString(string(l)):
		return invalid(ErrInvalidList, "it is not valid UTF-8")
	case strings.ContainsAny(string(l), "\x00\n\r"):
		return invalid(ErrInvalidList, "it holds a NUL or a line break")
	}
	return nil
}

// Item is one thing to be done: at least 1 byte of valid UTF-8 without NUL and line
// breaks (LF, CR), compared byte by byte.
type Item string

// check checks both the list's name and the item.
func (i Item) check(list List) error {
	if err := list.check(); err != nil {
		return err
	}
	return checkItem(list, []byte(i))
}

// checkItem returns an error that wraps ErrInvalidItem or ErrTooLong and does not
// repeat the item.
func checkItem(list List, item []byte) error {
	switch {
	case len(item) == 0:
		return invalid(ErrInvalidItem, "it is empty")
	case len(list)+len(item) > MaxBytes:
		return invalid(ErrTooLong, "it and the list's name have %d bytes together, at most %d are allowed",
			len(list)+len(item), MaxBytes)
	}

	ascii := true
	for _, c := range item {
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

	if !ascii && !utf8.Valid(item) {
		return invalid(ErrInvalidItem, "it is not valid UTF-8")
	}
	return nil
}

// Claim identifies the items that one call of Claim took: a UUID in its usual form,
// in lower case. "" means no claim.
type Claim string

// ParseClaim returns s in lower case, or an error that wraps ErrInvalidClaim.
func ParseClaim(s string) (Claim, error) {
	claim := Claim(strings.ToLower(s))
	return claim, claim.check()
}

var claimForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// check returns an error that wraps ErrInvalidClaim, even for no claim.
func (c Claim) check() error {
	if !claimForm.MatchString(string(c)) {
		return invalid(ErrInvalidClaim, "it is not a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
	}
	return nil
}

// checkOptional is like check but accepts no claim.
func (c Claim) checkOptional() error {
	if c == "" {
		return nil
	}
	return c.check()
}
