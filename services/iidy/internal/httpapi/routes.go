package httpapi

import (
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

type handlers struct {
	service *attempt.Service
	long    httpserver.Allowance // of a request with a long body
	ops     *telemetry.Operations
}

// batchPath begins the paths of batches. An item may have any name, so no route may have a literal segment where
// another has an item: the segments before the list tell the routes apart.
const batchPath = "/iidy/v1/batch/lists/"

// Register registers the service's routes on e. Requests with long bodies get the allowance long. Each operation gets a
// span from ops, which is nil without tracing.
func Register(e *echo.Echo, service *attempt.Service, long httpserver.Allowance, ops *telemetry.Operations) {
	h := handlers{service: service, long: long, ops: ops}
	e.Use(noSniff)

	const list, item = "/iidy/v1/lists/:list", "/iidy/v1/lists/:list/:item"
	e.HEAD(list, h.route("exists", h.exists))
	e.GET(list, h.route("progress", h.count))
	e.GET(item, h.route("get", h.get))
	e.POST(item, h.routeByAction("must be increment, or left out", map[string]operation{
		"":          {"add", h.apply(attempt.Add)},
		"increment": {"increment", h.apply(attempt.Increment)},
	}))
	e.POST("/iidy/v1/increment/lists/:list/:item", h.route("increment", h.apply(attempt.Increment)))
	e.DELETE(item, h.route("delete", h.apply(attempt.Delete)))

	const batch = batchPath + ":list"
	e.GET(batch, h.route("page", h.page))
	e.POST(batch, h.routeByAction("must be increment, delete, claim, extend or release, or left out", map[string]operation{
		"":          {"add_batch", h.applyBatch(attempt.Add)},
		"increment": {"increment_batch", h.applyBatch(attempt.Increment)},
		"delete":    {"delete_batch", h.deleteBatch},
		"claim":     {"claim", h.claim},
		"extend":    {"extend", h.extendClaim},
		"release":   {"release", h.releaseClaim},
	}))
	e.POST("/iidy/v1/increment/batch/lists/:list", h.route("increment_batch", h.applyBatch(attempt.Increment)))
	e.DELETE(batch, h.deleteBatchOrAbandon)
}

// noSniff keeps browsers from interpreting text that clients have sent as a page.
func noSniff(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
		return next(c)
	}
}

// handler serves a request whose query has been parsed. It calls query.end before it changes anything.
type handler func(c echo.Context, q *query) error

// operation is a handler with the name of its span.
type operation struct {
	span  string
	serve handler
}

// run calls the operation's handler in its span.
func (h handlers) run(c echo.Context, q *query, o operation) error {
	return httpserver.Operation(h.ops, "iidy."+o.span)(func(c echo.Context) error { return o.serve(c, q) })(c)
}

// route returns the echo handler of one operation.
func (h handlers) route(span string, serve handler) echo.HandlerFunc {
	return func(c echo.Context) error { return h.run(c, readQuery(c.Request()), operation{span, serve}) }
}

// routeByAction returns an echo handler that selects the operation by the parameter action; "" means a request without
// it. want completes the error's sentence about any other value.
func (h handlers) routeByAction(want string, operations map[string]operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		q := readQuery(c.Request())
		action, given := q.take(paramAction)
		o, known := operations[action]
		if !known || given && action == "" {
			q.fail(badParam(paramAction, want))
			return q.end()
		}
		return h.run(c, q, o)
	}
}

// deleteBatchOrAbandon deletes the items of the body, or with min_attempts the items with at least that many attempts.
func (h handlers) deleteBatchOrAbandon(c echo.Context) error {
	q := readQuery(c.Request())
	switch abandon := q.values.Has(paramMinAttempts); {
	case !abandon:
		return h.run(c, q, operation{"delete_batch", h.deleteBatch})
	case hasBody(c):
		q.fail(badParam(paramMinAttempts, "replaces a body; send one of the two"))
		return q.end()
	}
	return h.run(c, q, operation{"abandon", h.abandon})
}

// deleteBatch deletes the items of the body. A request without one is refused: a proxy may have dropped it.
func (h handlers) deleteBatch(c echo.Context, q *query) error {
	if !hasBody(c) {
		q.fail(problem.InvalidField.New("There is nothing to delete: send items, or DELETE with the parameter min_attempts.",
			problem.Field(paramMinAttempts)))
		return q.end()
	}
	return h.applyBatch(attempt.Delete)(c, q)
}

// hasBody reports whether the request has a body. The length of a short one is known.
func hasBody(c echo.Context) bool { return c.Request().ContentLength != 0 }
