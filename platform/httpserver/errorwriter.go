package httpserver

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrorWriter answers a request with an error, in a form of the service's own:
// its headers (problem.Error.SetHeaders), its status and a body. It is asked for
// every error answer of a listener, those of the server itself included: 404,
// 405, 413, 503 OVERLOADED, a panic.
//
// r is nil where net/http refused the request before there was one (a malformed
// request line, a bad percent escape, a header that is too large). The error that
// it returns is that of the connection.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error

// orProblem is the writer, or that of problem+json where there is none.
func (write ErrorWriter) orProblem() ErrorWriter {
	if write != nil {
		return write
	}
	return func(w http.ResponseWriter, _ *http.Request, e *problem.Error, traceID string) error {
		return problem.Write(w, e, traceID)
	}
}
