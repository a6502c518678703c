package attempt

import (
	"errors"
	"fmt"
)

// The sentinels that the ports answer with. An error that is none of them comes
// from the repository's technology and passes through the domain unchanged.
var (
	// ErrInvalidList says that a list's name breaks the rules of List.
	ErrInvalidList = errors.New("the name of the list is not valid")
	// ErrInvalidItem says that an item breaks the rules of Item.
	ErrInvalidItem = errors.New("the item is not valid")
	// ErrTooLong says that a list's name and an item are longer together than MaxBytes.
	ErrTooLong = errors.New("the item is too long")
	// ErrInvalidClaim says that a claim is not a UUID.
	ErrInvalidClaim = errors.New("the claim is not valid")
	// ErrInvalidCount says that a count is outside of its bounds.
	ErrInvalidCount = errors.New("the count is not valid")
	// ErrInvalidLease says that a lease is outside of its bounds.
	ErrInvalidLease = errors.New("the lease is not valid")
	// ErrInvalidAttempts says that a number of attempts is below 1.
	ErrInvalidAttempts = errors.New("the number of attempts is not valid")
	// ErrNotFound says that the item is not in the list.
	ErrNotFound = errors.New("the item is not in the list")
	// ErrBusy says that as many batches are under way as may be. Nothing was applied.
	ErrBusy = errors.New("as many batches are under way as this replica takes")
	// ErrInTheWay says that others changed the same items while a long batch was
	// applied, which cannot be run again. Nothing was applied.
	ErrInTheWay = errors.New("other changes of the same items were in the way")
)

// PlaceError says which item of a batch is at fault. Its text does not repeat
// the item.
type PlaceError struct {
	// Place names it as the one who sent it counts: "line 3", "items[2]".
	Place string
	// Err is ErrInvalidItem or ErrTooLong, with its sentence.
	Err error
}

func (e *PlaceError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PlaceError) Unwrap() error { return e.Err }

func invalid(sentinel error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...))
}
