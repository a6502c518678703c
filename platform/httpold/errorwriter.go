package httpold

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
)

// ErrorWriter is that of httpserver.
type ErrorWriter = httpserver.ErrorWriter

// orProblem is the writer, or that of problem+json where there is none.
func orProblem(write ErrorWriter) ErrorWriter {
	if write != nil {
		return write
	}
	return func(w http.ResponseWriter, _ *http.Request, e *problem.Error, traceID string) error {
		return problem.Write(w, e, traceID)
	}
}
