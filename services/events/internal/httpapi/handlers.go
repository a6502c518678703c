package httpapi

import (
	"net/http"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// The JSON bodies.
type (
	eventResponse struct {
		ID    int64   `json:"id"`
		Value *string `json:"value"` // null while pending
	}
	acceptedResponse struct {
		ID int64 `json:"id"`
	}
	countResponse struct {
		Count int64 `json:"count"`
	}
)

func toResponse(e event.Event) eventResponse {
	r := eventResponse{ID: int64(e.ID)}
	if !e.Pending {
		r.Value = &e.Value
	}
	return r
}

// router is what routes are put on; *httpserver.Server is one.
type router interface {
	Handle(method, pattern string, h httpserver.Handler)
}

// Register puts the API's routes on r. The bodies of requests are ignored.
func Register(r router, port event.API) {
	h := handlers{port}
	r.Handle(http.MethodPost, "/events", h.create)
	r.Handle(http.MethodPost, "/events/async", h.enqueue)
	r.Handle(http.MethodGet, "/events", h.count)
	r.Handle(http.MethodGet, "/events/{id}", h.get)
}

type handlers struct{ port event.API }

func (h handlers) create(w http.ResponseWriter, r *http.Request) error {
	e, err := h.port.Create(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Location", location(e.ID))
	return httpserver.WriteJSON(w, http.StatusCreated, toResponse(e))
}

func (h handlers) enqueue(w http.ResponseWriter, r *http.Request) error {
	id, err := h.port.Enqueue(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Location", location(id))
	return httpserver.WriteJSON(w, http.StatusAccepted, acceptedResponse{int64(id)})
}

func (h handlers) count(w http.ResponseWriter, r *http.Request) error {
	n, err := h.port.Count(r.Context())
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, countResponse{n})
}

func (h handlers) get(w http.ResponseWriter, r *http.Request) error {
	raw, err := httpserver.PathParam(r, fieldID)
	if err != nil {
		return err
	}
	id, err := event.ParseID(raw)
	if err != nil {
		return err
	}
	e, err := h.port.Get(r.Context(), id)
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, toResponse(e))
}

func location(id event.ID) string { return "/events/" + id.String() }
