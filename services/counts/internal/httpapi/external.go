package httpapi

import (
	"context"
	"net/http"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

type external struct {
	port counting.ExternalCountUpdateAPI
}

// change serves increase and decrease, which differ in the port's method alone.
func (external) change(do func(context.Context, counting.ItemID, counting.Amount) (int64, error)) httpserver.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := itemID(r)
		if err != nil {
			return err
		}
		var body changeRequest
		if err := httpserver.DecodeJSON(r, &body, httpserver.AllowEmpty()); err != nil {
			return err
		}
		amount := counting.DefaultAmount
		if body.Amount != nil {
			if amount, err = counting.NewAmount(*body.Amount); err != nil {
				return err
			}
		}
		value, err := do(r.Context(), id, amount)
		if err != nil {
			return err
		}
		return httpserver.WriteJSON(w, http.StatusOK, changedResponse{string(id), value})
	}
}

func (h external) reset(w http.ResponseWriter, r *http.Request) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	if err := httpserver.DecodeJSON(r, &struct{}{}, httpserver.AllowEmpty()); err != nil {
		return err
	}
	value, err := h.port.Reset(r.Context(), id)
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, changedResponse{string(id), value})
}
