package httpapi

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// internalCounts is the path of the internal port.
const internalCounts = "/api/v1/internal/counts"

// handlers implement the generated ServerInterface.
type handlers struct {
	external counting.ExternalCountUpdateAPI
	internal counting.InternalCountValueAPI
}

// Register registers the operations of the contract: those of the internal port on internal, all others on external,
// which may be the same. Each has a span of ops, which is nil without tracing.
func Register(external, internal EchoRouter, service *counting.Service, ops *telemetry.Operations) {
	h := handlers{external: service, internal: service}
	spans := httpserver.Operations(ops, map[string]string{
		"increaseCount": "counts.increase", "decreaseCount": "counts.decrease", "resetCount": "counts.reset",
		"initializeCount": "counts.initialize", "getCount": "counts.get", "listCounts": "counts.get_many",
		"setCount": "counts.set", "deleteCount": "counts.delete",
	})
	RegisterHandlersWithOptions(listeners{external, internal}, h, RegisterHandlersOptions{OperationMiddlewares: spans})
	internal.GET(internalCounts, h.listCounts, spans["listCounts"]...)
}

// listeners registers each route on the listener of its port.
type listeners struct {
	EchoRouter // of the external port

	internal EchoRouter
}

func (l listeners) of(path string) EchoRouter { //nolint:ireturn // the generated code has no other type for it
	if strings.HasPrefix(path, internalCounts) {
		return l.internal
	}
	return l.EchoRouter
}

// GET implements EchoRouter.
func (l listeners) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	return l.of(path).GET(path, h, m...)
}

// POST implements EchoRouter.
func (l listeners) POST(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	return l.of(path).POST(path, h, m...)
}

// PUT implements EchoRouter.
func (l listeners) PUT(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	return l.of(path).PUT(path, h, m...)
}

// DELETE implements EchoRouter.
func (l listeners) DELETE(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	return l.of(path).DELETE(path, h, m...)
}
