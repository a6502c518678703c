package coalesce

import (
	"errors"

	"github.com/rowlock/rowlock/platform/problem"
)

// The errors of Do beside those of Run. All but ErrUnknown mean that the request was
// surely not applied and may be sent again.
var (
	// ErrQueueFull means that Config.Queue requests were waiting already, or left less of QueueItems than this one needs.
	ErrQueueFull = errors.New("coalesce: the queue is full")
	// ErrClosed means that Close was called before the request came.
	ErrClosed = errors.New("coalesce: closed")
	// ErrLocked means that another transaction held the row for Config.LockTimeout.
	ErrLocked = errors.New("coalesce: the row stayed locked by another transaction")
	// ErrLeft means that the caller's context ended while its request was still
	// waiting to be sent. It is joined with the context's error.
	ErrLeft = errors.New("coalesce: the caller's context ended before its request was sent")
	// ErrUnknown means that the caller's context ended, or Run panicked or broke
	// its contract, after the request had been sent: it may have been applied.
	ErrUnknown = errors.New("coalesce: the outcome is unknown")
)

// The errors by which Run asks for another pass. Both promise that nothing of the group
// was applied.
var (
	// ErrLockWait means that Pass.Wait passed before every row was locked.
	ErrLockWait = errors.New("coalesce: the wait for a locked row ran out")
	// ErrSplit means that the statement failed for a reason that may lie in a single
	// request, so that the others are to be tried without it. A group of one gets the
	// error itself.
	ErrSplit = errors.New("coalesce: a request of the group makes the statement fail")
)

// Problem returns the API's answer to an error of this package, or nil for any other
// error.
func Problem(err error) *problem.Error {
	cause := problem.Cause(err)
	switch {
	case errors.Is(err, ErrQueueFull):
		return problem.Overloaded.New("Too many requests are waiting already. Nothing was applied; try again.", cause)
	case errors.Is(err, ErrLocked):
		return problem.NotApplied.New(
			"The record stayed locked by another transaction. Nothing was applied; try again.", cause)
	case errors.Is(err, ErrClosed):
		return problem.NotApplied.New("This replica is shutting down. Nothing was applied; try again.", cause)
	case errors.Is(err, ErrLeft):
		return problem.NotApplied.New(
			"The request's time ran out before it was sent to the database. Nothing was applied; try again.", cause)
	case errors.Is(err, ErrUnknown):
		return problem.OutcomeUnknown.New(
			"The database did not answer in time. The change may or may not have been applied.", cause)
	}
	return nil
}
