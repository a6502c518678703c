package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// CreateEvent adds an event with a value. The body is ignored.
func (h handlers) CreateEvent(c echo.Context) error {
	e, err := h.events.Create(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, location(e.ID))
	return c.JSON(http.StatusCreated, CreatedEvent{Id: int64(e.ID), Value: e.Value})
}

// EnqueueEvent adds a pending event. The body is ignored.
func (h handlers) EnqueueEvent(c echo.Context) error {
	id, err := h.events.Enqueue(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, location(id))
	return c.JSON(http.StatusAccepted, EnqueuedEvent{Id: int64(id)})
}

// CountEvents returns the number of all events.
func (h handlers) CountEvents(c echo.Context) error {
	n, err := h.events.Count(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Count{Count: n})
}

// getEvent reads one event.
func (h handlers) getEvent(c echo.Context) error {
	id, err := event.ParseID(c.Param(fieldID))
	if err != nil {
		return err
	}
	e, err := h.events.Find(c.Request().Context(), id)
	if err != nil {
		return err
	}
	body := Event{Id: int64(e.ID)}
	if !e.Pending {
		body.Value = &e.Value
	}
	return c.JSON(http.StatusOK, body)
}

func location(id event.ID) string { return "/events/" + id.String() }
