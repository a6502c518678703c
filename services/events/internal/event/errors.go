package event

import "errors"

// The errors that the ports return. Any other error comes from the repository and passes through the domain unchanged.
var (
	// ErrInvalidID says that an id is not a positive 64-bit integer in digits.
	ErrInvalidID = errors.New("the event's id is not valid")
	// ErrNotFound says that no event has this id.
	ErrNotFound = errors.New("no event has this id")
	// ErrStatus says that no event can be added because the table status does not hold exactly one row.
	ErrStatus = errors.New("the table status must hold exactly one row")
)
