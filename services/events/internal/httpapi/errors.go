package httpapi

import (
	"errors"
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// The kind of problem that only this service has.
var eventNotFound = problem.Define("EVENT_NOT_FOUND", http.StatusNotFound, "Event not found")

// fieldID names the part of a request that can be at fault.
const fieldID = "id"

// ProblemOf returns what the client learns about an error of the domain, and nil for any other error.
func ProblemOf(err error) *problem.Error {
	switch {
	case errors.Is(err, event.ErrNotFound):
		return eventNotFound.New("No event has this id.", problem.Field(fieldID), problem.Cause(err))
	case errors.Is(err, event.ErrInvalidID):
		return problem.InvalidField.New("The event's id must be a whole number from 1 to 9223372036854775807, in digits.",
			problem.Field(fieldID), problem.Cause(err))
	case errors.Is(err, event.ErrStatus):
		return problem.NotApplied.New("The service's table of ids is damaged and must be repaired. Nothing was added.",
			problem.Cause(err))
	}
	return nil
}
