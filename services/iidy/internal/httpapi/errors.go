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

// The service's own problem kinds, beside the platform's.
var (
	itemNotFound = problem.Define("ITEM_NOT_FOUND", http.StatusNotFound, "Item not found")
	listNotFound = problem.Define("LIST_NOT_FOUND", http.StatusNotFound, "List not found")
	itemTooLong  = problem.Define("ITEM_TOO_LONG", http.StatusBadRequest, "Item too long")
)

// notFound is the sentence of a 404, the same as that of older versions of IIDY.
const notFound = "Not found."

// ProblemOf translates the errors of the domain into what the client sees. It returns nil for an error that is not
// the domain's.
func ProblemOf(err error) *problem.Error {
	for _, row := range []struct {
		sentinel error
		kind     problem.Kind
		detail   string
		field    string
	}{
		{attempt.ErrNotFound, itemNotFound, notFound, ""},
		{attempt.ErrBusy, problem.Overloaded, sentence(attempt.ErrBusy) + " Nothing was applied; try again.", ""},
		{attempt.ErrConflict, problem.NotApplied, sentence(attempt.ErrConflict) + " Nothing was applied; try again.", ""},
		{attempt.ErrTooLong, itemTooLong, "", fieldItem},
		{attempt.ErrInvalidItem, problem.InvalidField, "", fieldItem},
		{attempt.ErrInvalidList, problem.InvalidField, "", fieldList},
		{attempt.ErrInvalidClaim, problem.InvalidField, "", paramClaim},
		{attempt.ErrInvalidCount, problem.InvalidField, "", paramCount},
		{attempt.ErrInvalidLease, problem.InvalidField, "", paramLease},
		{attempt.ErrInvalidAttempts, problem.InvalidField, "", paramMinAttempts},
		{attempt.ErrInvalidPosition, problem.InvalidField, "", paramAfter},
	} {
		if !errors.Is(err, row.sentinel) {
			continue
		}
		if row.detail == "" {
			row.detail = sentence(err) // the domain's errors do not repeat the input
		}
		if place, ok := errors.AsType[*attempt.PlaceError](err); ok {
			row.field = place.Place
		}
		return row.kind.New(row.detail, problem.Field(row.field), problem.Cause(err))
	}
	return nil
}

func nothingToDelete() *problem.Error {
	return problem.InvalidField.New("There is nothing to delete: send items, or the parameter min_attempts.",
		problem.Field(paramMinAttempts))
}

// sentence returns an error's text as a sentence.
func sentence(err error) string {
	text := err.Error()
	if 'a' <= text[0] && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	return text + "."
}

// errorDocument is a problem with the member that clients of older versions of IIDY read.
type errorDocument struct {
	problem.Document

	Error string `json:"error"`
}

// WriteError implements httpserver.ErrorWriter. It writes an error in the format of other answers: the sentence
// and a line break, or the problem with a member error.
func WriteError(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
	body, contentType := []byte(e.Detail()), textPlain
	if answerFormat(r) == inJSON {
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
	return err //nolint:wrapcheck // the connection's
}
