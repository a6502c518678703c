package httpserver

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// request holds what the middleware of one request share. It is found in the request's context.
type request struct {
	server *Server
	method string
	route  *route          // nil: no route matched
	fits   bool            // each parameter of the route stands for one segment
	id     string          // X-Request-Id
	outer  context.Context //nolint:containedctx // the request's, without the deadline, for Extend
	body   io.ReadCloser   // the connection's

	problem  *problem.Error // the answer, when it is an error
	err      error          // what the handler returned, for the log
	answered bool           // the error has been handled
	noted    bool           // log and metrics take the problem's status: the status line may not show it
	aborted  bool           // the answer broke off: the connection must too
}

// requestKey finds the request in a context.
type requestKey struct{}

// requestOf returns the request of ctx, nil where there is none.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// begin makes the request of c and puts it into its context.
func (s *Server) begin(c echo.Context) *request {
	in := c.Request()
	r := &request{server: s, method: in.Method, outer: in.Context(), body: in.Body}
	// echo lets a parameter at a path's end take the slashes that follow, and one in the middle be empty.
	r.fits = strings.Count(c.Path(), "/") == strings.Count(in.URL.RawPath, "/")
	for _, value := range c.ParamValues() {
		r.fits = r.fits && value != ""
	}
	if r.fits {
		r.route = s.routes[routeKey{in.Method, c.Path()}]
	}
	c.SetRequest(in.WithContext(context.WithValue(in.Context(), requestKey{}, r)))
	return r
}

// status returns the status for metrics, log and span.
func (r *request) status(c echo.Context) int {
	switch {
	case r.noted:
		return r.problem.Kind().Status()
	case r.aborted && !r.clientLeft():
		return http.StatusInternalServerError // the client got a part
	}
	return c.Response().Status
}

// code returns the code of the error table that the answer names, else an empty string.
func (r *request) code() string {
	if r.problem == nil {
		return ""
	}
	return r.problem.Kind().Code()
}

// clientLeft reports whether the client closed its connection before it had its answer.
func (r *request) clientLeft() bool { return r.outer.Err() != nil }

// traceID returns the id by which the log finds the request.
func (r *request) traceID() string {
	if span := trace.SpanContextFromContext(r.outer); span.IsValid() {
		return span.TraceID().String()
	}
	return r.id
}

// routeKey is a route as echo knows it.
type routeKey struct{ method, path string }

// route is one method on one path.
type route struct {
	template  string // with parameters in braces
	observers observers
}

// routeAdded learns of each route that is registered. GET serves HEAD too, unless HEAD has a handler of its own.
func (s *Server) routeAdded(_ string, added echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
	r := &route{template: templateOf(added.Path)}
	r.observers.of = s.metrics.of(added.Method, r.template)
	s.routes[routeKey{added.Method, added.Path}] = r
	if options := (routeKey{http.MethodOptions, added.Path}); s.routes[options] == nil { // echo answers it
		o := &route{template: r.template}
		o.observers.of = s.metrics.of(http.MethodOptions, r.template)
		s.routes[options] = o
	}
	if added.Method == http.MethodGet && s.routes[routeKey{http.MethodHead, added.Path}] == nil {
		s.echo.Add(http.MethodHead, added.Path, handler, middleware...)
	}
}

// templateOf writes echo's path with parameters in braces, as the contract and the metrics do.
func templateOf(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if name, ok := strings.CutPrefix(segment, ":"); ok {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}
