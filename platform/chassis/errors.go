package chassis

import (
	"errors"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/problem"
)

// groupProblem returns the API's answer to an error of group commit, or nil for any other error.
func groupProblem(err error) *problem.Error {
	cause := problem.Cause(err)

	switch {
	case errors.Is(err, groupcommit.ErrQueueFull):
		return problem.Overloaded.New("Too many requests are already waiting. Nothing was applied; try again.", cause)
	case errors.Is(err, groupcommit.ErrLocked):
		return problem.NotApplied.New(
			"The record stayed locked by another transaction. Nothing was applied; try again.", cause)
	case errors.Is(err, groupcommit.ErrClosed):
		return problem.NotApplied.New("This replica is shutting down. Nothing was applied; try again.", cause)
	case errors.Is(err, groupcommit.ErrNoSlot):
		return problem.NotApplied.New(
			"The record of the change's outcome was missing. Nothing was applied; try again.", cause)
	case errors.Is(err, groupcommit.ErrLeft):
		return problem.NotApplied.New(
			"The request's time ran out before it was sent to the database. Nothing was applied; try again.", cause)
	case errors.Is(err, groupcommit.ErrUnknown):
		return problem.OutcomeUnknown.New(
			"The database did not answer in time. The change may or may not have been applied.", cause)
	}

	return nil
}
