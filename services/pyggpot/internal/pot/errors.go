package pot

import "errors"

// The sentinels that the ports return. After each of them nothing was changed. An error that is none of them comes from
// an adapter's technology and passes through the domain unchanged.
var (
	// ErrNotFound reports that there is no such pot.
	ErrNotFound = errors.New("there is no such pot")
	// ErrOutOfRange reports that a page has pots and begins after more than MaxOffset others.
	ErrOutOfRange = errors.New("the page begins too far behind the first")
	// ErrExists reports that another pot has the name.
	ErrExists = errors.New("a pot has this name already")
	// ErrFull reports that the coins do not fit into the pot.
	ErrFull = errors.New("the coins do not fit into the pot")
	// ErrLocked reports that other changes of the pot were in the way for too long.
	ErrLocked = errors.New("other changes of the pot were in the way for too long")
	// ErrTimeOver reports that the request ended, by its deadline or because its client left, before its change was begun.
	ErrTimeOver = errors.New("the request ended before its change was begun")
)
