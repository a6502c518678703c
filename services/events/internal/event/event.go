package event

import (
	"fmt"
	"strconv"
)

// MaxValueBytes limits the length of a value: the column is a varchar(255).
const MaxValueBytes = 255

// ID identifies an event. The first is 1.
type ID int64

// ParseID parses an id from a URL: digits without sign or leading zero, 1 to the largest int64. The error wraps
// ErrInvalidID and does not repeat s.
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%w: it must be a whole number from 1 to 9223372036854775807, in digits", ErrInvalidID)
	}
	return ID(n), nil
}

// String returns the id in digits.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// Event is one event as stored in the database.
type Event struct {
	ID ID
	// Value has no meaning while the event is pending.
	Value string
	// Pending is set until a worker has stored a value.
	Pending bool
}

// Backlog describes the pending events.
type Backlog struct {
	// Pending is the number of pending events, claimed ones included.
	Pending int64
	// Distance is the age of the oldest pending event, counted in ids from its own on, because no time is stored; 0 when
	// none is pending.
	Distance int64
}
