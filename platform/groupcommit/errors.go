package groupcommit

import "errors"

// The errors of Do, beside those of the database. All but ErrUnknown mean that the request was surely not applied.
var (
	// ErrQueueFull means that [Limits.Queue] requests were waiting already.
	ErrQueueFull = errors.New("groupcommit: the queue is full")
	// ErrClosed means that Close was called before the request came.
	ErrClosed = errors.New("groupcommit: closed")
	// ErrLocked means that another session held the row for [Limits.LockTimeout].
	ErrLocked = errors.New("groupcommit: the row stayed locked by another transaction")
	// ErrLeft means that the caller's context ended before its request was sent. It is joined with the context's error.
	ErrLeft = errors.New("groupcommit: the caller's context ended before its request was sent")
	// ErrUnknown means that the caller's context ended after its request had been sent, or that Send panicked or broke its
	// contract: the request may have been applied.
	ErrUnknown = errors.New("groupcommit: the outcome is unknown")
)

// ErrNoSlot is what Send returns when the slot did not hold the attempt before this one: nothing was changed.
var ErrNoSlot = errors.New("groupcommit: the slot is not at the attempt before this one")

// ErrSplit is what Send returns when one request keeps the group from being sent, and it is not known which: nothing
// was changed. The halves are sent by themselves, and a request that is alone gets the error.
var ErrSplit = errors.New("groupcommit: one request keeps its group from being sent")
