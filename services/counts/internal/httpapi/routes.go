package httpapi

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// router is what routes are put on; *httpserver.Server is one.
type router interface {
	Handle(method, pattern string, h httpserver.Handler)
}

// External puts the routes of the external port on r.
func External(r router, port counting.ExternalCountUpdateAPI) {
	h := external{port}
	r.Handle(http.MethodPost, "/api/v1/counts/{itemId}/increase", h.change(port.Increase))
	r.Handle(http.MethodPost, "/api/v1/counts/{itemId}/decrease", h.change(port.Decrease))
	r.Handle(http.MethodPost, "/api/v1/counts/{itemId}/reset", h.reset)
}

// Internal puts the routes of the internal port on r.
func Internal(r router, port counting.InternalCountValueAPI) {
	h := internal{port}
	r.Handle(http.MethodPost, "/api/v1/internal/counts", h.initialize)
	r.Handle(http.MethodGet, "/api/v1/internal/counts", h.list)
	r.Handle(http.MethodGet, "/api/v1/internal/counts/{itemId}", h.get)
	r.Handle(http.MethodPut, "/api/v1/internal/counts/{itemId}", h.set)
	r.Handle(http.MethodDelete, "/api/v1/internal/counts/{itemId}", h.delete)
}

// itemID reads the path's id; a bad one is refused before anything is looked up.
func itemID(r *http.Request) (counting.ItemID, error) {
	raw, err := httpserver.PathParam(r, fieldItemID)
	if err != nil {
		return "", err
	}
	return counting.NewItemID(raw)
}
