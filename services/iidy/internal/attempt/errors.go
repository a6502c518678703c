package attempt

import (
	"errors"
	"fmt"
)

// The errors of Service. Any other error comes from the repository and passes
// through the domain unchanged.
var (
	// ErrInvalidList says that a list's name breaks the rules of List.
	ErrInvalidList = errors.New("the name of the list is not valid")
	// ErrInvalidItem says that an item breaks the rules of Item.
	ErrInvalidItem = errors.New("the item is not valid")
	// ErrTooLong says that a list's name and an item together exceed MaxBytes.
	ErrTooLong = errors.New("the item is too long")
	// ErrInvalidClaim says that a claim is not a UUID.
	ErrInvalidClaim = errors.New("the claim is not valid")
	// ErrInvalidCount says that a count is out of range.
	ErrInvalidCount = errors.New("the count is not valid")
	// ErrInvalidLease says that a lease is out of range.
	ErrInvalidLease = errors.New("the lease is not valid")
	// ErrInvalidAttempts says that a number of attempts is below 1.
	ErrInvalidAttempts = errors.New("the number of attempts is not valid")
	// ErrInvalidPosition says that a position between items is not valid text.
	ErrInvalidPosition = errors.New("the position in the list is not valid")
	// ErrNotFound says that the item is not in the list.
	ErrNotFound = errors.New("the item is not in the list")
	// ErrBusy says that the limit of concurrent batches is reached. Nothing was applied.
	ErrBusy = errors.New("the limit of concurrent batches is reached")
	// ErrSpoolFull says that there is no room for an incoming batch. Nothing was applied.
	ErrSpoolFull = errors.New("the spool is full")
	// ErrMemory says that other large answers use up the replica's memory. Nothing was claimed.
	ErrMemory = errors.New("other large answers use up the memory of the replica")
	// ErrConflict says that a batch failed because other transactions kept changing the
	// same items. Nothing was applied.
	ErrConflict = errors.New("other transactions kept changing the same items")
)

// PlaceError says which item of a batch is invalid. Its text does not repeat the item.
type PlaceError struct {
	// Place names the item for the sender: "line 3", "items[2]".
	Place string
	// Err wraps ErrInvalidItem or ErrTooLong.
	Err error
}

func (e *PlaceError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PlaceError) Unwrap() error { return e.Err }

func invalid(sentinel error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...))
}
