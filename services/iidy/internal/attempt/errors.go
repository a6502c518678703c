package attempt

import (
	"errors"
	"fmt"
)

// The errors of Service. An error that wraps none of them comes from the
// repository's technology and passes through the domain unchanged.
var (
	// ErrInvalidList reports a list's name that breaks the rules of List.
	ErrInvalidList = errors.New("the name of the list is not valid")
	// ErrInvalidItem reports an item that breaks the rules of Item.
	ErrInvalidItem = errors.New("the item is not valid")
	// ErrTooLong reports a list's name and an item that together exceed MaxBytes.
	ErrTooLong = errors.New("the item is too long")
	// ErrInvalidClaim reports a claim that is not a UUID.
	ErrInvalidClaim = errors.New("the claim is not valid")
	// ErrInvalidCount reports a count outside of its bounds.
	ErrInvalidCount = errors.New("the count is not valid")
	// ErrInvalidLease reports a lease outside of its bounds.
	ErrInvalidLease = errors.New("the lease is not valid")
	// ErrInvalidAttempts reports a number of attempts below 1.
	ErrInvalidAttempts = errors.New("the number of attempts is not valid")
	// ErrInvalidPosition reports a position between items that is not valid text.
	ErrInvalidPosition = errors.New("the position in the list is not valid")
	// ErrNotFound reports that the item is not in the list.
	ErrNotFound = errors.New("the item is not in the list")
	// ErrBusy reports that the limit of concurrent batches is reached. Nothing was applied.
	ErrBusy = errors.New("the limit of concurrent batches is reached")
	// ErrSpoolFull reports that there is no room for a batch that is arriving. Nothing was applied.
	ErrSpoolFull = errors.New("the spool is full")
	// ErrMemory reports that other large answers hold the memory of the replica. Nothing was claimed.
	ErrMemory = errors.New("other large answers hold the memory of the replica")
	// ErrConflict reports a batch that was not applied because other transactions went on
	// changing the same items. Nothing was applied.
	ErrConflict = errors.New("other changes of the same items were in the way")
)

// PlaceError reports which item of a batch is invalid. Its text does not repeat the
// item.
type PlaceError struct {
	// Place names the item as the sender counts: "line 3", "items[2]".
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
