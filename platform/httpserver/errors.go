package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrorWriter writes an error answer in a form of the service's own: its headers (problem.Error.SetHeaders), its
// status and a body. It is called for every error answer of a listener, those of the server itself included: 404,
// 405, 413, 503 OVERLOADED, a panic. The error that it returns is that of the connection.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error

func writeProblem(w http.ResponseWriter, _ *http.Request, e *problem.Error, traceID string) error {
	return problem.Write(w, e, traceID)
}

// handleError is echo's HTTPErrorHandler: it answers err, or marks the connection to be cut when an answer was begun.
func (s *Server) handleError(err error, c echo.Context) {
	r := requestOf(c)
	if r == nil {
		return
	}
	if errors.Is(err, echo.ErrMethodNotAllowed) {
		err = methodNotAllowed(c)
	}
	if c.Response().Committed {
		r.aborted = true
		if r.clientGone() {
			return // the error is that of the connection
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
		header.Del(key) // they described the answer that did not come
	}
	// With HTTP/2 the stream alone ends, and other requests share its connection.
	cut := r.problem.Kind() == problem.BodyTooLarge && c.Request().ProtoMajor < 2
	if cut {
		header.Set(echo.HeaderConnection, "close")
	}
	// The error is that of the connection, and there is no client left to answer.
	_ = s.deps.WriteError(c.Response(), c.Request(), r.problem, r.traceID())
	if cut {
		r.readOn()
	}
}

// readOn reads a refused body for a while: a connection that is closed over unread bytes is reset, and the reset
// overtakes the answer.
func (r *request) readOn() {
	const (
		longest = time.Second
		most    = 16 << 20
	)
	in := r.Request()
	if unsent := in.Header.Get("Expect") != "" && in.ContentLength > r.server.cfg.MaxBody; r.body == nil || unsent {
		return // a client that waits for 100 Continue has sent nothing
	}
	conn := http.NewResponseController(r.Response())
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(longest)) != nil {
		return // no connection to close
	}
	_, _ = io.CopyN(io.Discard, r.body, most) // the error is what ends it
}

// problemOf returns what the client learns about err.
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
		// A service that knows more has a translation of its own. Otherwise the change may have been made by then.
		if safeMethod(method) {
			return problem.NotApplied.New("The request's time ran out. Nothing was changed; try again.", problem.Cause(err))
		}
		return problem.OutcomeUnknown.New("The request's time ran out. "+
			"The change may or may not have been made; look before you repeat it.", problem.Cause(err))
	}
	return internal(err)
}

func internal(err error) *problem.Error {
	return problem.Internal.New("Something is wrong inside the service. The trace id finds it in the log.",
		problem.Cause(err))
}

// safeMethod reports whether the method promises to change nothing (RFC 9110, section 9.2.1).
func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// parameter finds the name in an error of the code that oapi-codegen generates.
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
			return problem.InvalidField.New("The parameter "+found[1]+" is missing, is there twice or has a wrong form.",
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

// Refuse returns what the client learns about err, by the translations of Deps.Errors, and notes it for the access log
// and the metrics. ctx is that of the HTTP request that [Request] returned. Refuse is for a handler whose protocol has
// errors of its own, which the status line may not show (gRPC answers 200), and that writes them itself; any other
// handler returns its error. traceID is the one in the log.
func Refuse(ctx context.Context, err error) (p *problem.Error, traceID string) {
	r := carriedBy(ctx)
	if r == nil { // no request of a Server
		return (&Server{}).problemOf(err, ""), ""
	}
	r.err, r.problem, r.noted = err, r.server.problemOf(err, r.method), true
	return r.problem, r.traceID()
}

// ProblemOf returns what the client of ctx's request learns about err; false where there is no request. Unlike Refuse
// it notes nothing.
func ProblemOf(ctx context.Context, err error) (p *problem.Error, ok bool) {
	r := carriedBy(ctx)
	if r == nil {
		return nil, false
	}
	return r.server.problemOf(err, r.method), true
}
