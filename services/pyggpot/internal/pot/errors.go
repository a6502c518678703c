package pot

import "errors"

// The sentinels that the ports answer with. After each of them nothing was
// changed. An error that is none of them comes from an adapter's technology and
// passes through the domain unchanged.
var (
	// ErrNotFound says that there is no such pot.
	ErrNotFound = errors.New("there is no such pot")
	// ErrExists says that the name belongs to another pot.
	ErrExists = errors.New("a pot has this name already")
	// ErrFull says that the coins do not fit into the pot.
	ErrFull = errors.New("the coins do not fit into the pot")
	// ErrInvalid says that a request breaks a rule that its contract should have
	// refused.
	ErrInvalid = errors.New("the request is not valid")
	// ErrLocked says that other changes of the pot were in the way for too long.
	ErrLocked = errors.New("other changes of the pot were in the way for too long")
	// ErrTimeOver says that the request ended, by its deadline or because its client
	// left, before its change was begun.
	ErrTimeOver = errors.New("the request ended before its change was begun")
	// ErrBusy says that the replica has as many changes under way as it may.
	ErrBusy = errors.New("too many changes are under way")
)
