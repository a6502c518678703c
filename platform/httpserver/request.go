package httpserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// request extends echo's context with what the middleware share about one request.
type request struct {
	echo.Context

	server  *Server
	start   time.Time
	method  string
	route   string           // the template; empty: no route matched
	fits    bool             // each parameter of the route stands for one segment
	handler echo.HandlerFunc // the route's
	id      string           // X-Request-Id
	caller  string           // the token's subject; empty: unknown
	outer   context.Context
	body    io.ReadCloser // the connection's
	answer  answerWriter  // between echo's writer and the connection's
	arrival *arrival      // the body as far as it was read before the permit; nil: nothing was read
	left    bool          // the answer does not wait for the rest of the body
	lasting bool          // it counts as a long request

	problem *problem.Error // the answer, if it is an error
	err     error          // the handler's error, for the log
	stack   []byte         // of a handler that panicked
	noted   bool           // log and metrics use the problem's status: the status line may not show it
	aborted bool           // the answer broke off, so the connection must be cut
}

// requestOf returns the request of c, which has passed the middleware.
func requestOf(c echo.Context) *request {
	r, _ := c.(*request)
	return r
}

// Error answers err as if the handler had returned it. echo's Error would pass on its own context, without the request.
func (r *request) Error(err error) { r.server.handleError(err, r) }

// requestKey is the key of the request in its context, for Refuse and ProblemOf.
type requestKey struct{}

// carriedBy returns the request in ctx; nil if there is none.
func carriedBy(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// begin wraps the context of a request whose route has handler.
func (s *Server) begin(c echo.Context, handler echo.HandlerFunc) *request {
	in := c.Request()
	r := &request{Context: c, server: s, start: time.Now(), method: in.Method, handler: handler, body: in.Body}
	r.outer = context.WithValue(in.Context(), requestKey{}, r)
	r.answer = newAnswerWriter(c.Response().Writer, s.partTime, r.start.Add(s.http.WriteTimeout))
	c.Response().Writer = &r.answer

	// In echo a parameter at the end of a path swallows further slashes, and one in the middle may be empty.
	r.fits = strings.Count(c.Path(), "/") == strings.Count(in.URL.RawPath, "/")
	for _, value := range c.ParamValues() {
		r.fits = r.fits && value != ""
	}

	if r.fits {
		r.route = s.routes[routeKey{in.Method, c.Path()}]
	}
	return r
}

// status returns the status for metrics, log and span. The status line may show another.
func (r *request) status() int {
	switch {
	case r.noted:
		return r.problem.Kind().Status()
	case r.aborted && !r.clientGone():
		return http.StatusInternalServerError // the client got only a part
	}
	return r.Response().Status
}

// code returns the answer's code in the error table; empty if it is no error.
func (r *request) code() string {
	if r.problem == nil {
		return ""
	}
	return r.problem.Kind().Code()
}

// clientLeft reports whether the client closed its connection before it had its answer.
func (r *request) clientLeft() bool { return r.outer.Err() != nil }

// clientGone reports whether the client cannot get the rest of the answer, because it left or read too slowly.
func (r *request) clientGone() bool { return r.answer.cut || r.clientLeft() }

// traceID returns the ID that finds the request in the log.
func (r *request) traceID() string {
	if span := trace.SpanContextFromContext(r.outer); span.IsValid() {
		return span.TraceID().String()
	}
	return r.id
}

// routeKey is a route as echo knows it.
type routeKey struct{ method, path string }

// routeAdded records each registered route. A GET route also serves HEAD, unless HEAD has a separate handler, and echo
// answers OPTIONS.
func (s *Server) routeAdded(_ string, added echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
	template := templateOf(added.Path)
	s.routes[routeKey{added.Method, added.Path}] = template
	s.routes[routeKey{http.MethodOptions, added.Path}] = template
	if added.Method == http.MethodGet && s.routes[routeKey{http.MethodHead, added.Path}] == "" {
		s.echo.Add(http.MethodHead, added.Path, handler, middleware...)
	}
}

// templateOf rewrites echo's path with parameters in braces, as in the contract and the metrics.
func templateOf(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if name, ok := strings.CutPrefix(segment, ":"); ok {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}
