package counting

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxItemIDBytes limits the length of an ItemID in bytes.
	MaxItemIDBytes = 255
	// MaxItemsPerRead limits the ids of one GetMany.
	MaxItemsPerRead = 500
	// MaxPageSize limits the counts of one Page.
	MaxPageSize = 1000
	// DefaultPageSize is the size of a page when the request names no limit.
	DefaultPageSize = 100
)

// ItemID names a counter: 1 to MaxItemIDBytes bytes of valid UTF-8 without
// control characters. Ids are compared byte by byte, without Unicode normalisation.
type ItemID string

// NewItemID checks s. The error wraps ErrInvalidItemID and says what is wrong
// without repeating s.
func NewItemID(s string) (ItemID, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("%w: it is empty", ErrInvalidItemID)
	case len(s) > MaxItemIDBytes:
		return "", fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrInvalidItemID, len(s), MaxItemIDBytes)
	case !utf8.ValidString(s):
		return "", fmt.Errorf("%w: it is not valid UTF-8", ErrInvalidItemID)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", fmt.Errorf("%w: it holds a control character", ErrInvalidItemID)
	}
	return ItemID(s), nil
}

// CountValue is one counter as the database has it.
type CountValue struct {
	ItemID ItemID
	// Current is the counter's value.
	Current int64
	// UpdatedAt is the database's time of the last change.
	UpdatedAt time.Time
}
