package pot

import "errors"

// The errors that the ports return. After each of them nothing was changed. Any other error comes from an adapter and
// passes through the domain unchanged.
var (
	// ErrNotFound says that there is no such pot.
	ErrNotFound = errors.New("there is no such pot")
	// ErrOutOfRange says that a page has pots and begins after too many others.
	ErrOutOfRange = errors.New("the page begins after too many pots")
	// ErrExists says that the name is taken.
	ErrExists = errors.New("a pot has this name already")
	// ErrFull says that the coins do not fit into the pot.
	ErrFull = errors.New("the coins do not fit into the pot")
	// ErrLocked says that other changes of the pot took too long.
	ErrLocked = errors.New("other changes of the pot took too long")
	// ErrTimeOver says that the request ended, by its deadline or because its client left, before its change began.
	ErrTimeOver = errors.New("the request ended before its change began")
)
