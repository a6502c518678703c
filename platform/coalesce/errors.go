package coalesce

import (
	"errors"

	"github.com/rowlock/rowlock/platform/problem"
)

// What Do returns beside the errors of Run. All but ErrUnknown mean that the
// request was surely not applied and may be sent again.
var (
	// ErrQueueFull says that Config.Queue requests were waiting already.
	ErrQueueFull = errors.New("coalesce: the queue is full")
	// ErrClosed says that Close was called before the request came.
	ErrClosed = errors.New("coalesce: closed")
	// ErrLocked says that somebody else held the row for Config.LockTimeout.
	ErrLocked = errors.New("coalesce: the row stayed locked by somebody else")
	// ErrLeft says that the caller's context ended while its request was
	// still waiting to be sent. It is joined with the context's error.
	ErrLeft = errors.New("coalesce: the caller left before its request was sent")
	// ErrUnknown says that the caller's context ended, or Run panicked or broke
	// its contract, after the request had been sent: it may have been applied.
	ErrUnknown = errors.New("coalesce: the outcome is unknown")
)

// What Run returns to ask for another pass. Both promise that nothing of the
// group was applied.
var (
	// ErrLockWait says that Pass.Wait ran out before every row was locked.
	ErrLockWait = errors.New("coalesce: the wait for a locked row ran out")
	// ErrSplit says that the statement failed for a reason that may lie in a
	// single request, so that its neighbours deserve a try without it. A group
	// of one gets the error itself.
	ErrSplit = errors.New("coalesce: a request of the group spoils the statement")
)

// Problem translates this package's errors for an API; it returns nil for any
// other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrQueueFull):
		return problem.Overloaded.New("Too many requests are waiting already. Nothing was applied; try again.",
			problem.Cause(err))
	case errors.Is(err, ErrLocked):
		return problem.NotApplied.New("The record stayed locked by another transaction. Nothing was applied; try again.",
			problem.Cause(err))
	case errors.Is(err, ErrClosed):
		return problem.NotApplied.New("This replica is shutting down. Nothing was applied; try again.",
			problem.Cause(err))
	case errors.Is(err, ErrLeft):
		return problem.NotApplied.New("The request's time ran out before it was sent to the database. Nothing was applied; try again.",
			problem.Cause(err))
	case errors.Is(err, ErrUnknown):
		return problem.OutcomeUnknown.New("The database did not answer in time. The change may or may not have been applied.",
			problem.Cause(err))
	default:
		return nil
	}
}
