package attempt

import (
	"bytes"
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

// check returns an error that wraps ErrInvalidList or ErrTooLong and does not repeat the name.
func (l List) check() error {
	if len(l) >= MaxBytes {
		return invalid(ErrTooLong, "the list's name has %d bytes, and together with an item at most %d are allowed",
			len(l), MaxBytes)
	}
	return checkName(ErrInvalidList, []byte(l))
}

// checkName returns an error that wraps the sentinel and does not repeat the name of a list or an item.
func checkName(sentinel error, name []byte) error {
	switch {
	case len(name) == 0:
		return invalid(sentinel, "it is empty")
	case !utf8.Valid(name):
		return invalid(sentinel, "it is not valid UTF-8")
	case bytes.ContainsAny(name, "\x00\n\r"):
		return invalid(sentinel, "it holds a NUL or a line break")
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

// checkItem returns an error that wraps ErrInvalidItem or ErrTooLong and does not repeat the item.
func checkItem(list List, item []byte) error {
	if len(list)+len(item) > MaxBytes {
		return invalid(ErrTooLong, "it and the list's name have %d bytes together, at most %d are allowed",
			len(list)+len(item), MaxBytes)
	}
	return checkName(ErrInvalidItem, item)
}

// Claim identifies the items that one call of Claim took: a UUID in its usual form, in lower case, from ParseClaim. ""
// means no claim.
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
