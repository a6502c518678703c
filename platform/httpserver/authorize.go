package httpserver

import (
	"github.com/labstack/echo/v4"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/auth"
)

// authorize lets a request on when its caller has the right that its route needs, and puts the caller into its context,
// its span and its line of the log. It comes before the body is read and before the request has a permit, which a
// caller that may not call must not hold. A request of no route needs a caller as well: without one, no answer shows
// which routes there are.
func (s *Server) authorize(next echo.HandlerFunc) echo.HandlerFunc {
	if s.deps.Guard == nil {
		return next
	}
	return func(c echo.Context) error {
		r := requestOf(c)
		right := s.rightOf(r)
		if right == auth.Public {
			return next(c)
		}
		if err := s.identify(r, right); err != nil {
			leaveBody(c)
			return err
		}
		return next(c)
	}
}

// rightOf returns the right that r needs; the zero value where it has no route.
func (s *Server) rightOf(r *request) (right auth.Right) {
	switch {
	case r.route == "":
		return right
	case s.public[r.route]:
		return auth.Public
	}
	return s.deps.Right(r.method, r.route)
}

// identify returns an error unless r has a caller that has the right, where r has a route.
func (s *Server) identify(r *request, right auth.Right) error {
	in := r.Request()
	caller, err := s.deps.Guard.Authenticate(in.Context(), in.Header)
	if err != nil {
		return err
	}
	r.caller = caller
	trace.SpanFromContext(r.outer).SetAttributes(semconv.EnduserID(caller))
	if r.route != "" {
		if err := s.deps.Guard.Authorize(caller, right); err != nil {
			return err
		}
	}
	r.outer = auth.WithCaller(r.outer, caller)
	r.SetRequest(in.WithContext(r.outer))
	return nil
}
