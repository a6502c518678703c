package httpapi

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

type internal struct {
	port counting.InternalCountValueAPI
}

func (h internal) initialize(w http.ResponseWriter, r *http.Request) error {
	var body newCountRequest
	if err := httpserver.DecodeJSON(r, &body); err != nil {
		return err
	}
	if body.ItemID == nil {
		return problem.InvalidField.New("The member itemId is missing.", problem.Field(fieldItemID))
	}
	id, err := counting.NewItemID(*body.ItemID)
	if err != nil {
		return err
	}
	var initial int64
	if body.InitialValue != nil {
		initial = *body.InitialValue
	}
	value, err := h.port.Initialize(r.Context(), id, initial)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/internal/counts/"+pathSegment(string(id)))
	return httpserver.WriteJSON(w, http.StatusCreated, toResponse(value))
}

func (h internal) list(w http.ResponseWriter, r *http.Request) error {
	ids, err := askedFor(r.URL.RawQuery)
	if err != nil {
		return err
	}
	values, err := h.port.GetMany(r.Context(), ids)
	if err != nil {
		return err
	}
	body := make([]countResponse, len(values))
	for i, v := range values {
		body[i] = toResponse(v)
	}
	return httpserver.WriteJSON(w, http.StatusOK, body)
}

func (h internal) get(w http.ResponseWriter, r *http.Request) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	value, err := h.port.Get(r.Context(), id)
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, toResponse(value))
}

func (h internal) set(w http.ResponseWriter, r *http.Request) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	var body setRequest
	if err := httpserver.DecodeJSON(r, &body); err != nil {
		return err
	}
	if body.Value == nil {
		return problem.InvalidField.New("The member value is missing.", problem.Field(fieldValue))
	}
	value, err := h.port.Set(r.Context(), id, *body.Value)
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, toResponse(value))
}

func (h internal) delete(w http.ResponseWriter, r *http.Request) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	if err := h.port.Delete(r.Context(), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
