package event

import (
	"fmt"
	"strconv"
)

// MaxValueBytes bounds a value: the column is a varchar(255).
const MaxValueBytes = 255

// ID is an event's id: 1 and up.
type ID int64

// ParseID reads an id as a URL has it: digits without sign or leading zero, 1 to
// the largest int64. The error wraps ErrInvalidID and does not repeat s.
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%w: it must be a whole number from 1 to 9223372036854775807, in digits", ErrInvalidID)
	}
	return ID(n), nil
}

// String is the id in digits.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// Event is one event as it stands in the database.
type Event struct {
	ID ID
	// Value is what it was given; meaningless while it is pending.
	Value string
	// Pending tells that no worker has come to it yet.
	Pending bool
}

// Backlog is what the workers have before them.
type Backlog struct {
	// Pending is how many events wait for a worker, claimed ones included.
	Pending int64
	// Distance is how many ids were given since the oldest of them, itself
	// included: the age in events, as no time is stored. 0 when none is pending.
	Distance int64
}
