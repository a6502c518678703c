package httpold

import (
	"context"

	"github.com/rowlock/rowlock/platform/problem"
)

// Refuse says what the client is to be told about err, by the translations of
// Deps.Errors, and notes it for the access log and the metrics of ctx's request.
// It is for a handler that speaks a protocol with errors of its own, in which the
// status line may not show them (gRPC answers 200), and that writes them itself;
// any other handler returns its error. traceID is the one that the log has.
func Refuse(ctx context.Context, err error) (p *problem.Error, traceID string) {
	ex, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok { // no request of a Server
		return (&Server{}).problemOf(err, ""), ""
	}
	ex.failure = err
	ex.problem = ex.server.problemOf(err, ex.request.Method)
	ex.noted = true
	return ex.problem, ex.traceID()
}

// ProblemOf is what the client of ctx's request is told about err; false where there
// is no request. Unlike Refuse it notes nothing.
func ProblemOf(ctx context.Context, err error) (p *problem.Error, ok bool) {
	ex, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, false
	}
	return ex.server.problemOf(err, ex.request.Method), true
}

// booked is the status for log and metrics.
func (ex *exchange) booked() int {
	if ex.noted {
		return ex.problem.Kind().Status()
	}
	return ex.status
}
