package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrorWriter writes an error answer in another form than problem+json: its headers (problem.Error.SetHeaders), its
// status and a body. It writes all error answers of a listener, including the server's: 404, 405, 413, 503 OVERLOADED,
// a panic. It returns the connection's error.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error

func writeProblem(w http.ResponseWriter, _ *http.Request, e *problem.Error, traceID string) error {
	return problem.Write(w, e, traceID)
}

// handleError is echo's HTTPErrorHandler. It answers err, or marks the connection to be cut if an answer has begun.
func (s *Server) handleError(err error, c echo.Context) {
	r := requestOf(c)
	if errors.Is(err, echo.ErrMethodNotAllowed) {
		err = methodNotAllowed(c)
	}

	// It is too late for an answer: cut the one that has begun.
	if c.Response().Committed {
		r.aborted = true
		if r.clientGone() {
			return // err is the connection's
		}
	}

	r.err = err
	r.problem = s.problemOf(err, r.method)
	if r.aborted {
		return
	}

	r.noted = true
	header := c.Response().Header()
	for _, key := range []string{"Content-Encoding", "Etag", "Last-Modified", "Location"} {
		header.Del(key) // meant for the successful answer
	}

	// Writing fails only if the client is gone.
	_ = s.deps.WriteError(c.Response(), c.Request(), r.problem, r.traceID())
}

// problemOf returns the client's answer to err.
func (s *Server) problemOf(err error, method string) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}

	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return s.problemOfEcho(e)
	}

	for _, translate := range s.deps.Errors {
		if p := translate(err); p != nil {
			return p
		}
	}

	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		if safeMethod(method) {
			return problem.NotApplied.New("The request's time ran out. Nothing was changed; try again.", problem.Cause(err))
		}
		// A service that knows better has translated err above.
		return problem.OutcomeUnknown.New("The request's time ran out. "+
			"The change may or may not have been made; check before you repeat it.", problem.Cause(err))
	}

	return internal(err)
}

func internal(err error) *problem.Error {
	return problem.Internal.New("Something is wrong inside the service. The trace id finds it in the log.",
		problem.Cause(err))
}

// safeMethod reports whether the method is safe (RFC 9110, section 9.2.1).
func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// parameter finds the parameter's name in an error of the code that oapi-codegen generates.
var parameter = regexp.MustCompile(`(?:[Pp]arameter|value for) ([\w.-]{1,64})`)

// problemOfEcho translates the errors of echo, of its middleware and of generated code.
func (s *Server) problemOfEcho(e *echo.HTTPError) *problem.Error {
	switch e.Code {
	case http.StatusNotFound:
		return problem.NotFound.New("Nothing is served at this path.")
	case http.StatusRequestEntityTooLarge:
		return problem.BodyTooLarge.New(fmt.Sprintf("The body is larger than %d bytes.", s.cfg.MaxBody))
	case http.StatusBadRequest:
		if found := parameter.FindStringSubmatch(fmt.Sprint(e.Message)); found != nil {
			return problem.InvalidField.New("The parameter "+found[1]+" is missing, repeated or malformed.",
				problem.Field(found[1]), problem.Cause(e))
		}
		return problem.InvalidField.New("The request is malformed.", problem.Cause(e))
	}
	return internal(e)
}

func methodNotAllowed(c echo.Context) *problem.Error {
	methods, _ := c.Get(echo.ContextKeyHeaderAllow).(string)
	allowed := strings.Split(methods, ", ")
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return problem.MethodNotAllowed.New("This path does not serve that method. Allowed: "+allow+".",
		problem.Header("Allow", allow))
}

// Refuse returns the client's answer to err, using the translations of Deps.Errors, and records it for the access log
// and the metrics. ctx must come from the HTTP request. Refuse is for handlers that write errors themselves,
// because their protocol has another form for them that the status line may not show (gRPC answers 200); any other
// handler returns its error. The log has the same traceID.
func Refuse(ctx context.Context, err error) (p *problem.Error, traceID string) {
	r := carriedBy(ctx)
	r.err, r.problem, r.noted = err, r.server.problemOf(err, r.method), true
	return r.problem, r.traceID()
}

// Refused returns the error that Refuse recorded for ctx's request; nil if there is none.
func Refused(ctx context.Context) error { return carriedBy(ctx).err }

// ProblemOf returns the answer to err for the client of ctx's request; false if there is no request. Unlike Refuse it
// records nothing.
func ProblemOf(ctx context.Context, err error) (p *problem.Error, ok bool) {
	r := carriedBy(ctx)
	if r == nil {
		return nil, false
	}
	return r.server.problemOf(err, r.method), true
}
