package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// The service's own problem kinds, beside the platform's.
var (
	itemNotFound = problem.Define("ITEM_NOT_FOUND", http.StatusNotFound, "Item not found")
	listNotFound = problem.Define("LIST_NOT_FOUND", http.StatusNotFound, "List not found")
	itemTooLong  = problem.Define("ITEM_TOO_LONG", http.StatusBadRequest, "Item too long")
)

// Problem is the table from the domain's sentinels to what the client sees. It
// returns nil for an error that is not the domain's.
func Problem(err error) *problem.Error {
	for _, row := range []struct {
		sentinel error
		kind     problem.Kind
		field    string
	}{
		{attempt.ErrNotFound, itemNotFound, ""},
		{attempt.ErrBusy, problem.Overloaded, ""},
		{attempt.ErrConflict, problem.NotApplied, ""},
		{attempt.ErrTooLong, itemTooLong, fieldItem},
		{attempt.ErrInvalidItem, problem.InvalidField, fieldItem},
		{attempt.ErrInvalidList, problem.InvalidField, fieldList},
		{attempt.ErrInvalidClaim, problem.InvalidField, paramClaim},
		{attempt.ErrInvalidCount, problem.InvalidField, paramCount},
		{attempt.ErrInvalidLease, problem.InvalidField, paramLease},
		{attempt.ErrInvalidAttempts, problem.InvalidField, paramMinAttempts},
	} {
		if !errors.Is(err, row.sentinel) {
			continue
		}
		switch row.kind {
		case itemNotFound:
			return itemNotFound.New(notFound, problem.Cause(err))
		case problem.Overloaded, problem.NotApplied:
			return row.kind.New(sentence(row.sentinel)+" Nothing was applied; try again.", problem.Cause(err))
		}
		detail := sentence(err) // the domain's own words: they never repeat the input
		if place, ok := errors.AsType[*attempt.PlaceError](err); ok {
			row.field = place.Place
		}
		return row.kind.New(detail, problem.Field(row.field), problem.Cause(err))
	}
	return nil
}

// notFound is what the older IIDY says.
const notFound = "Not found."

// sentence makes one of an error's text.
func sentence(err error) string {
	s := err.Error()
	if 'a' <= s[0] && s[0] <= 'z' {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	return s + "."
}

// errorDocument is a problem with the member that the older IIDY's clients read.
type errorDocument struct {
	problem.Document

	Error string `json:"error"`
}

// WriteError answers an error as the caller asked for answers: the sentence and a
// line break, or the problem with a member error. It is an httpserver.ErrorWriter.
func WriteError(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
	var body bytes.Buffer
	h := w.Header()
	e.SetHeaders(h)
	h.Set("X-Error-Code", e.Kind().Code())
	h.Set("X-Content-Type-Options", "nosniff")
	if answerFormat(r) == text {
		h["Content-Type"] = textType
		body.WriteString(e.Detail())
		body.WriteByte('\n')
	} else {
		h.Set("Content-Type", problem.ContentType)
		enc := json.NewEncoder(&body)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(errorDocument{e.Document(traceID), e.Detail()}); err != nil {
			return fmt.Errorf("encode %s: %w", e.Kind().Code(), err)
		}
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(e.Kind().Status())
	if _, err := w.Write(body.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", e.Kind().Code(), err)
	}
	return nil
}
