package httpapi

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// internalCounts is the path of the internal port.
const internalCounts = "/api/v1/internal/counts"

// Right returns the right that a request needs: the internal port is for administrators.
func Right(method, route string) auth.Right {
	if strings.HasPrefix(route, internalCounts) {
		return auth.Administer
	}
	return auth.RightOf(method)
}

// handlers implement the generated ServerInterface.
type handlers struct{ counts *counting.Service }

// Register registers the operations of the contract: the internal port on internal, all others on external, which may
// be the same. Each operation gets a span from ops, which is nil without tracing. The route of listCounts is not
// generated because parseList accepts two spellings of a parameter.
func Register(external, internal *echo.Echo, counts *counting.Service, ops *telemetry.Operations) {
	h := handlers{counts}
	spans := httpserver.Operations(ops, map[string]string{
		"increaseCount": "counts.increase", "decreaseCount": "counts.decrease", "resetCount": "counts.reset",
		"changeCounts":    "counts.apply",
		"initializeCount": "counts.initialize", "getCount": "counts.get", "listCounts": "counts.get_many",
		"setCount": "counts.set", "deleteCount": "counts.delete",
	})

	all := echo.New() // passes each route on to the listener of its port
	all.OnAddRouteHandler = func(_ string, r echo.Route, h echo.HandlerFunc, m []echo.MiddlewareFunc) {
		if strings.HasPrefix(r.Path, internalCounts) {
			internal.Add(r.Method, r.Path, h, m...)
			return
		}
		external.Add(r.Method, r.Path, h, m...)
	}

	RegisterHandlersWithOptions(all, h, RegisterHandlersOptions{OperationMiddlewares: spans})
	all.GET(internalCounts, h.listCounts, spans["listCounts"]...)
}
