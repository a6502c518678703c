package httpapi

import (
	"net/http"
	"strconv"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// verb is what a change is called in answers, and its status.
func verb(c attempt.Change) (name string, status int) {
	switch c {
	case attempt.Increment:
		return "incremented", http.StatusOK
	case attempt.Delete:
		return "deleted", http.StatusOK
	case attempt.Add:
	}
	return "added", http.StatusCreated
}

// postItem adds or, with action=increment, increments.
func (h handlers) postItem(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	switch action, given := q[paramAction]; {
	case !given:
		return h.changeItem(w, r, attempt.Add, q, paramAction)
	case action == actionIncrement:
		return h.changeItem(w, r, attempt.Increment, q, paramAction, paramClaim)
	}
	return badParam(paramAction, "must be increment, or left out")
}

func (h handlers) incrementItem(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	return h.changeItem(w, r, attempt.Increment, q, paramClaim)
}

func (h handlers) deleteItem(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	return h.changeItem(w, r, attempt.Delete, q, paramClaim)
}

// changeItem changes one item; params are those that the query may have.
func (h handlers) changeItem(w http.ResponseWriter, r *http.Request, change attempt.Change, q query, params ...string) error {
	list, item, err := itemOf(r)
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
	n, err := h.port.Apply(r.Context(), change, list, item, claim)
	if err != nil {
		return err
	}
	name, status := verb(change)
	return writeCount(w, r, status, name, n)
}

func (h handlers) getItem(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	list, item, err := itemOf(r)
	if err != nil {
		return err
	}
	attempts, err := h.port.Get(r.Context(), list, item)
	if err != nil {
		return err
	}
	if answerFormat(r) == inJSON {
		return httpserver.WriteJSON(w, http.StatusOK, entry{string(item), attempts})
	}
	return writeText(w, http.StatusOK, append(strconv.AppendInt(nil, attempts, 10), '\n'))
}

// exists answers HEAD of a list.
func (h handlers) exists(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	list, err := listOf(r)
	if err != nil {
		return err
	}
	exists, err := h.port.Exists(r.Context(), list)
	if err != nil {
		return err
	}
	if !exists {
		return listNotFound.New(notFound)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h handlers) count(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	list, err := listOf(r)
	if err != nil {
		return err
	}
	p, err := h.port.Count(r.Context(), list)
	if err != nil {
		return err
	}
	return writeCounts(w, r, p)
}
