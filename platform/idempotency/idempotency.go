// Package idempotency defines the headers of requests with an idempotency key, and the syntax of the key.
package idempotency

import (
	"strings"

	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// Header carries the key of a request. A repeat carries the same key.
	Header = "Idempotency-Key"
	// Replayed is "true" on an answer that repeats the answer to an earlier request.
	Replayed = "Idempotent-Replayed"
)

// ParseKey parses the header's value, bare or quoted: "abc" in quotes is a string of RFC 9651 and the same key as abc.
// A key has 1 to 255 printable ASCII characters; the error is INVALID_FIELD.
func ParseKey(header string) (string, error) {
	const longest = 255
	key, ok := header, true
	if strings.HasPrefix(header, `"`) {
		key, ok = unquote(header)
	}

	switch {
	case !ok:
		return "", invalid("begins with a quote and is not a well-formed quoted string")
	case key == "" || len(key) > longest:
		return "", invalid("must have 1 to 255 characters")
	}

	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", invalid("must consist of printable ASCII characters")
		}
	}
	return key, nil
}

func invalid(rule string) error {
	return problem.InvalidField.New(Header+" "+rule+".", problem.Field(Header))
}

// unquote decodes a string of RFC 9651, section 3.3.3.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
