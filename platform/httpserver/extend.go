package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"
)

// Allowance is the time that Extend gives to a request.
type Allowance struct {
	// Timeout counts from now and replaces what is left of Config.RequestTimeout.
	Timeout time.Duration
	// Stall is how long the body may pause: a Read that gets nothing for so long fails, so that a silent client does not
	// hold its request for ever.
	Stall time.Duration
}

// Extend gives the request of c more time than Config.RequestTimeout, for one that carries a large body or starts
// long work. It replaces c.Request() by one whose context ends at the new deadline, when the client leaves, or when
// cancel is called, and whose body may take as long; the answer may be written a little beyond it.
//
// Where the connection has no deadlines, as in a test without one, only the context is extended.
func Extend(c echo.Context, by Allowance) (cancel context.CancelFunc, err error) {
	in := c.Request()
	r := requestOf(c)
	if r == nil {
		return nil, errors.New("httpserver: Extend of a request that did not pass the middleware")
	}
	deadline := time.Now().Add(by.Timeout)
	ctx, cancel := context.WithDeadline(trace.ContextWithSpan(r.outer, trace.SpanFromContext(in.Context())), deadline)
	extended := in.WithContext(ctx)
	conn := http.NewResponseController(c.Response())
	r.answer.by = deadline.Add(answerGrace)
	switch err := conn.SetWriteDeadline(r.answer.by); {
	case errors.Is(err, http.ErrNotSupported):
	case err != nil:
		cancel()
		return nil, fmt.Errorf("httpserver: extend the time for the answer: %w", err)
	case in.Body != nil && in.Body != http.NoBody:
		extended.Body = &slowBody{ReadCloser: in.Body, conn: conn, deadline: deadline, stall: by.Stall}
	}
	c.SetRequest(extended)
	return cancel, nil
}

// slowBody is a body that may take until deadline, without a pause longer than stall.
type slowBody struct {
	io.ReadCloser

	conn     *http.ResponseController
	deadline time.Time
	stall    time.Duration
}

// Read moves the connection's deadline ahead of each read. At the body's end net/http takes the deadline away.
func (b *slowBody) Read(p []byte) (int, error) {
	until := time.Now().Add(b.stall)
	if until.After(b.deadline) {
		until = b.deadline
	}
	if err := b.conn.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("httpserver: extend the time for the body: %w", err)
	}
	return b.ReadCloser.Read(p) //nolint:wrapcheck // an io.Reader returns what it got
}
