package httpserver

import (
	"github.com/labstack/echo/v4"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/auth"
)

// authorize lets a request proceed if its caller has the right that the route needs, and records the caller in the
// context, the span and the log line. It comes before the body is read and before the request takes a permit: a caller
// without the right must not hold one. A request without a route needs a valid token too, so that no answer reveals
// which routes exist.
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
			return err
		}
		return next(c)
	}
}

// rightOf returns the right that r needs; the zero value if it has no route.
func (s *Server) rightOf(r *request) (right auth.Right) {
	switch {
	case r.route == "":
		return right
	case s.public[r.route]:
		return auth.Public
	}
	return s.deps.Right(r.method, r.route)
}

// identify returns an error unless r has a valid token and, if it has a route, its caller has the right.
func (s *Server) identify(r *request, right auth.Right) error {
	caller, err := s.deps.Guard.Authenticate(r.outer, r.Request().Header)
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
	return nil
}
