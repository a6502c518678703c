package event

import "errors"

// The sentinels that the ports return. An error that is none of them comes from the repository's technology and passes
// through the domain unchanged.
var (
	// ErrInvalidID reports that an id is not a positive 64-bit integer in digits.
	ErrInvalidID = errors.New("the event's id is not valid")
	// ErrNotFound reports that no event has this id.
	ErrNotFound = errors.New("no event has this id")
	// ErrStatus reports that the table status does not hold exactly one row, so that no id can be given.
	ErrStatus = errors.New("the table status must hold exactly one row")
)
