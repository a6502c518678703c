package httpapi

import (
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// handlers implement the generated ServerInterface.
type handlers struct{ events *event.Service }

// Register registers the operations of the contract on e. Each gets a span from ops, which is nil without tracing. The
// route of getEvent is not generated because event.ParseID refuses more than the generated binding does.
func Register(e *echo.Echo, events *event.Service, ops *telemetry.Operations) {
	h := handlers{events: events}
	spans := httpserver.Operations(ops, map[string]string{
		"createEvent": "events.create", "enqueueEvent": "events.enqueue",
		"countEvents": "events.count", "getEvent": "events.get",
	})
	RegisterHandlersWithOptions(e, h, RegisterHandlersOptions{OperationMiddlewares: spans})
	e.GET("/events/:"+fieldID, h.getEvent, spans["getEvent"]...)
}
