package httpapi

import (
	"errors"
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// The service's own problem kind, beside the platform's.
var eventNotFound = problem.Define("EVENT_NOT_FOUND", http.StatusNotFound, "Event not found")

// fieldID is what can be at fault in a request.
const fieldID = "id"

// Problem is the table from the domain's sentinels to what the client sees. It
// returns nil for an error that is not the domain's.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, event.ErrNotFound):
		return eventNotFound.New("No event has this id.", problem.Field(fieldID), problem.Cause(err))
	case errors.Is(err, event.ErrInvalidID):
		return problem.InvalidField.New("The event's id must be a whole number from 1 to 9223372036854775807, in digits.",
			problem.Field(fieldID), problem.Cause(err))
	case errors.Is(err, event.ErrStatus):
		return problem.NotApplied.New("The service's table of ids is damaged: somebody has to look at it. Nothing was added.", problem.Cause(err))
	}
	return nil
}
