package httpold

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// routerError answers what the router or a handler returned.
func (s *Server) routerError(err error, c echo.Context) {
	ex, ok := c.Response().Writer.(*exchange)
	if !ok {
		return // cannot be: serve is the router's only caller
	}
	switch {
	case errors.Is(err, echo.ErrNotFound):
		err = notFound()
	case errors.Is(err, echo.ErrMethodNotAllowed):
		err = s.methodNotAllowed(ex.request, c.Path())
	}
	ex.fail(err)
}

func notFound() *problem.Error {
	return problem.NotFound.New("Nothing is served at this path.")
}

func (s *Server) methodNotAllowed(r *http.Request, routerPath string) *problem.Error {
	p := s.patterns[shapeOf(routerPath)]
	if p == nil || countSlashes(r) != p.slashes {
		return notFound() // the router let a parameter take slashes, see matched
	}
	return problem.MethodNotAllowed.New("This path does not serve that method. Allowed: "+p.allow()+".",
		problem.Header("Allow", p.allow()))
}

// problemOf is what the client is told about err.
func (s *Server) problemOf(err error, method string) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	for _, translate := range s.errors {
		if p := translate(err); p != nil {
			return p
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// Whoever knows better has a translation of its own. What is left is an
		// end of time of which nobody can say what had been done by then.
		if safeMethod(method) {
			return problem.NotApplied.New("The request's time ran out. Nothing was changed; try again.", problem.Cause(err))
		}
		return problem.OutcomeUnknown.New("The request's time ran out. "+
			"The change may or may not have been made; look before you repeat it.", problem.Cause(err))
	}
	return problem.Internal.New("Something is wrong inside the service. The trace id finds it in the log.", problem.Cause(err))
}

// safeMethod says that the method promises to change nothing (RFC 9110, section 9.2.1).
func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
