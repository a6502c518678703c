package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// Allowance is the time that Extend gives to a request.
type Allowance struct {
	// Timeout counts from now and replaces what is left of Config.RequestTimeout.
	Timeout time.Duration
	// Patience is how long the body may be waited for at first. Waiting uses it up, and what arrives brings it back up
	// to its first value, a second for MinRate bytes. Without any left a Read fails: no burst pays for a long pause,
	// and a client that is slower than MinRate does not hold its request until Timeout.
	Patience time.Duration
}

// MinRate is the least rate of the body of an extended request, and of one above 64 KiB before it has a permit, in
// bytes a second.
const MinRate = 1 << 10

// Extend gives the request of c more time than Config.RequestTimeout, for one that carries a large body or starts long
// work. It replaces c.Request() by one whose context ends at the new deadline, when the client leaves, or when cancel
// is called, and whose body may take as long; the answer may be written a little beyond it. Extended requests hold a
// quarter of the permits at most, together with streams and bodies of more than 64 KiB; above it the error is 503.
//
// Where the connection has no deadlines, as in a test without one, only the context is extended.
func Extend(c echo.Context, by Allowance) (context.CancelFunc, error) {
	in := c.Request()
	r := requestOf(c)
	if r == nil {
		return nil, errors.New("httpserver: Extend of a request that did not pass the middleware")
	}
	if err := r.mayLast(); err != nil {
		return nil, err
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
	case in.Body != nil && in.Body != http.NoBody && (r.arrival == nil || !r.arrival.whole):
		extended.Body = &slowBody{
			ReadCloser: in.Body, conn: conn, deadline: deadline, most: by.Patience, patience: by.Patience,
		}
	}
	c.SetRequest(extended)
	return cancel, nil
}

// slowBody is a body that may take until deadline, at MinRate or faster.
type slowBody struct {
	io.ReadCloser

	conn     *http.ResponseController
	deadline time.Time
	most     time.Duration // of patience
	patience time.Duration // how long Read may still wait
}

// Read moves the connection's deadline ahead of each read, and takes it away at the body's end. For a client that is
// too slow it returns a problem that wraps os.ErrDeadlineExceeded.
func (b *slowBody) Read(p []byte) (int, error) {
	begin := time.Now()
	until := begin.Add(b.patience)
	if until.After(b.deadline) {
		until = b.deadline
	}
	if err := b.conn.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("httpserver: extend the time for the body: %w", err)
	}
	n, err := b.ReadCloser.Read(p)
	b.patience = min(b.patience-time.Since(begin)+time.Duration(n)*time.Second/MinRate, b.most)
	switch {
	case errors.Is(err, io.EOF): // net/http takes it away as well, but may have done so before
		_ = b.conn.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, problem.InvalidField.New(
			fmt.Sprintf("The body came too slowly: it must bring %d bytes a second.", MinRate), problem.Cause(err))
	}
	return n, err //nolint:wrapcheck // an io.Reader returns what it got
}
