package httpapi

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// The problem that only this service has.
var eventNotFound = problem.Define("EVENT_NOT_FOUND", http.StatusNotFound, "Event not found")

// fieldID is the field that a problem can name.
const fieldID = "id"

// ProblemOf returns the problem that tells the client about an error of the domain, and nil for any other error.
func ProblemOf(err error) *problem.Error {
	return problem.Table{
		{Err: event.ErrNotFound, Kind: eventNotFound, Detail: "No event has this id.", Field: fieldID},
		{
			Err: event.ErrInvalidID, Kind: problem.InvalidField, Field: fieldID,
			Detail: "The event's id must be a whole number from 1 to 9223372036854775807, in digits.",
		},
		{
			Err: event.ErrStatus, Kind: problem.NotApplied,
			Detail: "The service's table of ids is damaged and must be repaired. Nothing was added.",
		},
	}.Of(err)
}
