package httpold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// headerRequestID is canonical, so that maps can be asked directly.
const headerRequestID = "X-Request-Id"

// exchange is one request and its answer: everything that this package knows of
// them, in one allocation. It is not pooled, because handlers may leave
// goroutines behind that still hold its context.
type exchange struct {
	server  *Server
	w       http.ResponseWriter
	request *http.Request // with ctx as its context
	route   *route        // nil: no route matched
	ctx     requestContext
	parent  context.Context //nolint:containedctx // ctx without the deadline, for Extend
	body    limitedBody
	start   time.Time

	requestID  string
	requestIDs [1]string // the header's value
	params     [maxParams]string

	status  int // 0: nothing was answered yet
	written int64
	problem *problem.Error
	failure error // what the handler returned, or the panic
	noted   bool  // problem is what log and metrics have: the status line may not show it
	aborted bool  // the answer broke off: the connection must too
	gone    bool  // the client was: an answer could not be written
}

// exchangeKey finds the exchange in a request's context.
type exchangeKey struct{}

// requestContext is the deadline's context that also knows its exchange.
type requestContext struct {
	context.Context //nolint:containedctx // it is a context

	exchange *exchange
}

// Value returns the exchange for its key, else what the parent says.
func (c *requestContext) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return c.exchange
	}
	return c.Context.Value(key)
}

// serve is everything between tracing and the router.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	ex := &exchange{server: s, w: w, start: time.Now(), parent: r.Context()}
	ctx, cancel := context.WithDeadline(r.Context(), ex.start.Add(s.cfg.RequestTimeout))
	defer cancel()
	ex.ctx = requestContext{ctx, ex}
	ex.request = r.WithContext(&ex.ctx)
	ex.requestID = requestID(r.Header)
	ex.requestIDs[0] = ex.requestID
	w.Header()[headerRequestID] = ex.requestIDs[:]
	defer func() { ex.finish(recover()) }()

	if r.Body != nil && r.Body != http.NoBody {
		ex.body = limitedBody{body: r.Body, left: s.cfg.MaxBody}
		ex.request.Body = &ex.body
	}
	// The router takes RawPath when there is one: so it always sees the path as
	// it was sent, and parameters are decoded once, by PathParam.
	r.URL.RawPath = r.URL.EscapedPath()
	s.router.ServeHTTP(ex, ex.request)
}

// matched runs the handler of r, which the router has found.
func (s *Server) matched(r *route, c echo.Context) error {
	ex, ok := c.Response().Writer.(*exchange)
	if !ok {
		return errors.New("httpserver: the router lost its exchange")
	}
	// The router lets a parameter at a pattern's end take the slashes that
	// follow, and lets one in the middle be empty. A segment is neither.
	if countSlashes(ex.request) != r.slashes {
		return echo.ErrNotFound
	}
	for i, value := range c.ParamValues() {
		if value == "" {
			return echo.ErrNotFound
		}
		ex.params[i] = value
	}
	ex.route = r
	if s.inFlight.Add(1) > int64(s.cfg.MaxInFlight) {
		s.inFlight.Add(-1)
		return problem.Overloaded.New("This replica is working on as many requests as it may. Nothing was applied; try again.")
	}
	defer s.inFlight.Add(-1)
	if ex.request.ContentLength > s.cfg.MaxBody {
		return bodyTooLarge(s.cfg.MaxBody)
	}
	return r.handler(ex, ex.request)
}

// finish ends the exchange, by whatever way the handler ended: panicked is what
// recover returned.
func (ex *exchange) finish(panicked any) {
	if panicked != nil {
		if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			ex.aborted = true
		} else {
			ex.fail(&panicError{value: panicked, stack: debug.Stack()})
		}
	}
	if ex.status == 0 {
		ex.status = http.StatusOK // net/http answers so when a handler writes nothing
	}
	if ex.aborted && !ex.gone {
		ex.status = http.StatusInternalServerError // for the books: the client got a part
	}
	took := time.Since(ex.start)
	if ex.route != nil {
		ex.server.metrics.count(ex.booked())
		ex.route.observers.observe(ex.booked(), took)
	} else {
		ex.server.metrics.observe(canonicalMethod(ex.request.Method), routeUnmatched, ex.booked(), took)
	}
	clientLeft := ex.parent.Err() != nil
	if ex.server.tracing {
		ex.describe(clientLeft)
	}
	ex.log(took, clientLeft)
	if ex.aborted {
		panic(http.ErrAbortHandler) // net/http's way to cut the connection
	}
}

// panicError is what a handler panicked with.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// fail answers err, or cuts the connection when an answer was begun.
func (ex *exchange) fail(err error) {
	if ex.gone { // this is what err is about, and it is nobody's fault here
		ex.aborted = true
		return
	}
	ex.failure = err
	ex.problem = ex.server.problemOf(err, ex.request.Method)
	ex.noted = false
	if ex.status != 0 {
		ex.aborted = true
		return
	}
	ex.noted = true // an ErrorWriter's status line may not show it
	h := ex.Header()
	for _, key := range []string{"Content-Encoding", "Etag", "Last-Modified", "Location"} {
		h.Del(key) // they spoke of the answer that did not come
	}
	// In HTTP/2 the stream alone ends, and other requests share its connection.
	tooLarge := ex.request.ProtoMajor < 2 && (ex.body.exceeded || ex.problem.Kind() == problem.BodyTooLarge)
	if tooLarge {
		h["Connection"] = []string{"close"}
	}
	// The error is that of the connection: nobody is left to tell.
	_ = ex.server.answer(ex, ex.request, ex.problem, ex.traceID())
	if tooLarge {
		ex.linger()
	}
}

// linger reads on for a while after a body was refused: a connection closed
// over unread bytes is reset, and the reset overtakes the answer.
func (ex *exchange) linger() {
	const (
		longest = time.Second
		most    = 16 << 20
	)
	asked := len(ex.request.Header["Expect"]) > 0 && ex.body.read == 0 // then nothing was sent yet
	if ex.body.body == nil || asked {
		return
	}
	ex.Flush()
	if http.NewResponseController(ex.w).SetReadDeadline(time.Now().Add(longest)) != nil {
		return // no connection to close
	}
	// The error is what ends it.
	_, _ = io.CopyN(io.Discard, ex.body.body, most)
}

// traceID is the id by which the log finds the request.
func (ex *exchange) traceID() string {
	if span := trace.SpanContextFromContext(&ex.ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ex.requestID
}

// Header is that of the answer.
func (ex *exchange) Header() http.Header { return ex.w.Header() }

// WriteHeader begins the answer.
func (ex *exchange) WriteHeader(status int) {
	if ex.status == 0 && status >= http.StatusOK {
		ex.begin(status)
	}
	ex.w.WriteHeader(status)
}

func (ex *exchange) begin(status int) {
	ex.status = status
	if ex.server.draining.Load() {
		ex.w.Header()["Connection"] = []string{"close"}
	}
}

// Write writes to the answer's body.
func (ex *exchange) Write(p []byte) (int, error) {
	if ex.status == 0 {
		ex.begin(http.StatusOK)
	}
	n, err := ex.w.Write(p)
	ex.written += int64(n)
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) && !errors.Is(err, http.ErrContentLength) {
		ex.gone = true
	}
	return n, err //nolint:wrapcheck // an io.Writer returns what it got
}

// Flush sends what was written so far.
func (ex *exchange) Flush() {
	if ex.status == 0 {
		ex.begin(http.StatusOK)
	}
	// The error is that of the connection; the next Write meets it too.
	_ = http.NewResponseController(ex.w).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.w }

// requestID is the client's id when it is a UUID in its usual form, else a new one.
func requestID(h http.Header) string {
	const uuidLength = 36
	if ids := h[headerRequestID]; len(ids) == 1 && len(ids[0]) == uuidLength {
		if uuid.Validate(ids[0]) == nil {
			return ids[0]
		}
	}
	return newRequestID()
}

// newRequestID is a random UUID (RFC 9562, version 4). It names a request and
// guards nothing, so it does not wait for the kernel's randomness.
func newRequestID() string {
	const (
		version4   = 0x40
		rfcVariant = 0x80
	)
	var id uuid.UUID
	for i, half := range [2]uint64{rand.Uint64(), rand.Uint64()} {
		for j := range 8 {
			id[8*i+j] = byte(half >> (8 * j)) //nolint:gosec // the low byte is meant
		}
	}
	id[6] = id[6]&0x0f | version4
	id[8] = id[8]&0x3f | rfcVariant
	return id.String()
}
