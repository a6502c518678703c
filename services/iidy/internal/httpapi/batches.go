package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// postBatch adds, or does what action says.
func (h handlers) postBatch(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	switch action, given := q[paramAction]; {
	case !given:
		return h.changeBatch(w, r, attempt.Add, q, paramAction)
	case action == actionIncrement:
		return h.changeBatch(w, r, attempt.Increment, q, paramAction, paramClaim)
	case action == actionClaim:
		return h.claim(w, r, q)
	case action == actionExtend:
		return h.extend(w, r, q)
	case action == actionRelease:
		return h.release(w, r, q)
	}
	return badParam(paramAction, "must be increment, claim, extend or release, or left out")
}

func (h handlers) incrementBatch(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	return h.changeBatch(w, r, attempt.Increment, q, paramClaim)
}

// deleteBatch deletes the items of the body or, with min_attempts, abandons. One of
// the two there must be: a body that got lost shall not delete anything by chance.
func (h handlers) deleteBatch(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	hasBody := someBody(r)
	switch _, abandon := q[paramMinAttempts]; {
	case abandon && hasBody:
		return badParam(paramMinAttempts, "stands for a body; send one of the two")
	case abandon:
		return h.abandon(w, r, q)
	case !hasBody:
		return problem.InvalidField.New("There is nothing to delete: send items, or the parameter min_attempts.",
			problem.Field(paramMinAttempts))
	}
	return h.changeBatch(w, r, attempt.Delete, q, paramClaim)
}

// someBody tells whether there is a body of at least a byte. Of one whose length is
// not declared it looks at the first.
func someBody(r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	begin := bufio.NewReader(r.Body)
	_, err := begin.Peek(1)
	r.Body = struct {
		io.Reader
		io.Closer
	}{begin, r.Body}
	return !errors.Is(err, io.EOF)
}

// changeBatch changes the items of the body; params are those that the query may have.
func (h handlers) changeBatch(w http.ResponseWriter, r *http.Request, change attempt.Change, q query, params ...string) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	if err := q.only(params...); err != nil {
		return err
	}
	claim, err := q.claim()
	if err != nil {
		return err
	}
	r, cancel, err := h.patient(r, r.ContentLength < 0 || r.ContentLength > shortBody)
	if err != nil {
		return err
	}
	defer cancel()
	items, err := source(r)
	if err != nil {
		return err
	}
	n, err := h.port.ApplyBatch(r.Context(), change, list, items, claim)
	if err != nil {
		return err
	}
	name, status := verb(change)
	return writeCount(w, r, status, name, n)
}

// shortBody is up to how many bytes a body must arrive within REQUEST_TIMEOUT.
const shortBody = 64 << 10

// maxUploads is how many calls a replica gives the time of a long one: each may
// hold some MiB, and take its time.
const maxUploads = 64

// patient gives a call the time of a long one, where it is one.
func (h handlers) patient(r *http.Request, long bool) (*http.Request, context.CancelFunc, error) {
	if !long {
		return r, func() {}, nil
	}
	select {
	case h.uploads <- struct{}{}:
	default:
		return nil, nil, attempt.ErrBusy
	}
	r, cancel, err := httpserver.Extend(r, httpserver.Allowance{Timeout: h.options.BulkTimeout, Stall: h.options.BulkStall})
	if err != nil {
		<-h.uploads
		return nil, nil, err
	}
	return r, func() { cancel(); <-h.uploads }, nil
}

func (h handlers) page(w http.ResponseWriter, r *http.Request) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	if err := q.only(paramCount, paramAfter); err != nil {
		return err
	}
	count, err := q.count()
	if err != nil {
		return err
	}
	after, err := q.after()
	if err != nil {
		return err
	}
	entries, err := h.port.Page(r.Context(), list, after, count)
	if err != nil {
		return err
	}
	return writePage(w, r, list, count, entries)
}

func (h handlers) abandon(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	if err := q.only(paramMinAttempts, paramClaim); err != nil {
		return err
	}
	attempts, err := q.number(paramMinAttempts)
	if err != nil {
		return err
	}
	claim, err := q.claim()
	if err != nil {
		return err
	}
	r, cancel, err := h.patient(r, true)
	if err != nil {
		return err
	}
	defer cancel()
	n, err := h.port.Abandon(r.Context(), list, attempts, claim)
	if err != nil {
		return err
	}
	return writeCount(w, r, http.StatusOK, "deleted", n)
}
