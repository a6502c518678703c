package counting

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
)

// MaxChanges limits the changes of one Request.
const MaxChanges = 1000

// Change changes a count. What Delta is depends on the Operation: the amount that Add adds, which is not the smallest
// int64, or the value that Create and Set store. Delete ignores it.
type Change struct {
	ItemID ItemID
	Delta  int64
}

// NewChange checks an id and an amount; the error wraps ErrInvalidItemID or ErrInvalidAmount. The smallest int64 is
// refused because no other amount undoes it: its negative overflows.
func NewChange(itemID string, amount int64) (Change, error) {
	id, err := NewItemID(itemID)
	switch {
	case err != nil:
		return Change{}, err
	case amount == 0:
		return Change{}, fmt.Errorf("%w: it must not be 0", ErrInvalidAmount)
	case amount == math.MinInt64:
		return Change{}, fmt.Errorf("%w: it must be at least %d", ErrInvalidAmount, math.MinInt64+1)
	}
	return Change{ItemID: id, Delta: amount}, nil
}

// Key makes a request repeatable: of all requests with one Caller and Value, the first is applied and the others get
// its answer, as long as the repository keeps the key. An empty Value means no key.
type Key struct {
	// Caller separates the keys of different systems; it is empty when callers are not identified.
	Caller string
	// Value has 1 to 255 printable ASCII characters.
	Value string
	// Fingerprint identifies the request: another request with the same key gets ErrKeyConflict. Service sets it.
	Fingerprint [16]byte
}

// of returns the key with the fingerprint of an operation and its changes. It hashes the parsed values, so that two
// spellings of one request in JSON are the same.
func (k Key) of(operation string, changes ...Change) Key {
	if k.Value == "" {
		return k
	}

	text := []byte(operation)
	for _, c := range changes { // an item id has no control character, so different lists give different texts
		text = append(text, '\n')
		text = append(text, c.ItemID...)
		text = append(text, '\n')
		text = strconv.AppendInt(text, c.Delta, 10)
	}

	sum := sha256.Sum256(text)
	copy(k.Fingerprint[:], sum[:])
	return k
}

// ChangeError says which change of several was refused.
type ChangeError struct {
	// Index counts from 0.
	Index int
	// Err wraps ErrInvalidItemID, ErrInvalidAmount, ErrNotFound or ErrOverflow.
	Err error
}

// Error names the change.
func (e *ChangeError) Error() string { return fmt.Sprintf("change %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *ChangeError) Unwrap() error { return e.Err }
