package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/strictjson"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// The problems that only this service has.
var (
	itemNotFound = problem.Define("ITEM_NOT_FOUND", http.StatusNotFound, "Item not found")
	listNotFound = problem.Define("LIST_NOT_FOUND", http.StatusNotFound, "List not found")
	itemTooLong  = problem.Define("ITEM_TOO_LONG", http.StatusBadRequest, "Item too long")
)

// notFound is the sentence of a 404, the same as in older versions of IIDY.
const notFound = "Not found."

// ProblemOf returns the problem that tells the client about an error of the domain, and nil for any other error. The
// problem never repeats the input.
func ProblemOf(err error) *problem.Error {
	field := fieldItem
	if place, ok := errors.AsType[*attempt.PlaceError](err); ok {
		field = place.Place
	}

	return problem.Table{
		{Err: attempt.ErrNotFound, Kind: itemNotFound, Detail: notFound},
		{
			Err: attempt.ErrSpoolFull, Kind: problem.Overloaded,
			Detail: "This replica has no room for more incoming batches. " + tryAgain,
		},
		{Err: attempt.ErrBusy, Kind: problem.Overloaded, Detail: "The limit of concurrent batches is reached. " + tryAgain},
		{
			Err: attempt.ErrMemory, Kind: problem.Overloaded,
			Detail: "Other large answers use up the memory of this replica. Nothing was claimed; try again, or ask for less.",
		},
		{
			Err: attempt.ErrConflict, Kind: problem.NotApplied,
			Detail: "Other requests kept changing the same items. " + tryAgain,
		},
		{Err: attempt.ErrTooLong, Kind: itemTooLong, Field: field},
		{Err: attempt.ErrInvalidItem, Kind: problem.InvalidField, Field: field},
		{Err: attempt.ErrInvalidList, Kind: problem.InvalidField, Field: fieldList},
		{Err: attempt.ErrInvalidClaim, Kind: problem.InvalidField, Field: paramClaim},
		{Err: attempt.ErrInvalidCount, Kind: problem.InvalidField, Field: paramCount},
		{Err: attempt.ErrInvalidLease, Kind: problem.InvalidField, Field: paramLease},
		{Err: attempt.ErrInvalidAttempts, Kind: problem.InvalidField, Field: paramMinAttempts},
		{Err: attempt.ErrInvalidPosition, Kind: problem.InvalidField, Field: paramAfter},
	}.Of(err)
}

const tryAgain = "Nothing was applied; try again."

// errorDocument is a problem with the member that clients of older versions of IIDY read.
type errorDocument struct {
	problem.Document

	Error string `json:"error"`
}

// WriteError implements httpserver.ErrorWriter. It writes an error in the format of the answer: the sentence and a line
// break, or the problem with an additional member error.
func WriteError(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
	body, contentType := []byte(e.Detail()), textPlain
	if answersJSON(r) {
		document, err := strictjson.Marshal(errorDocument{e.Document(traceID), e.Detail()})
		if err != nil {
			return err
		}
		body, contentType = document, problem.ContentType
	}
	body = append(body, '\n')

	h := w.Header()
	e.SetHeaders(h)
	h.Set("X-Error-Code", e.Kind().Code())
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	w.WriteHeader(e.Kind().Status())
	_, err := w.Write(body)
	return err
}
