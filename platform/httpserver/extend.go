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

// Allowance is the time that Extend grants to a request.
type Allowance struct {
	// Timeout counts from now and replaces what is left of Config.RequestTimeout.
	Timeout time.Duration
	// Patience bounds the wait for the body. Waiting uses it up; arriving bytes restore it, a second for
	// minRate bytes, up to its initial value. When it is used up, Read fails: a burst cannot pay for a long pause, and a
	// client slower than minRate does not hold its request until Timeout.
	Patience time.Duration
}

// minRate is the minimum rate, in bytes a second, for the body of an extended request, and for a body above 64 KiB
// before its request has a permit.
const minRate = 1 << 10

// Extend grants the request of c more time than Config.RequestTimeout, for a large body or long work. It replaces
// c.Request(): the new context ends at the new deadline, when the client leaves, or when cancel is called, the body may
// take as long, and the answer may be written a little later. Extended requests, streams and bodies above 64 KiB
// together may hold a quarter of the permits; beyond that Extend returns 503.
//
// If the connection has no deadlines, as in some tests, only the context is extended.
func Extend(c echo.Context, by Allowance) (context.CancelFunc, error) {
	in := c.Request()
	r := requestOf(c)
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

// slowBody is a body that may arrive until deadline, at minRate or faster.
type slowBody struct {
	io.ReadCloser

	conn     *http.ResponseController
	deadline time.Time
	most     time.Duration // maximum of patience
	patience time.Duration // how much longer Read may wait
}

// Read sets the connection's deadline before each read, and removes it at the end of the body. If the client is too
// slow, it returns a problem that wraps os.ErrDeadlineExceeded.
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
	b.patience = min(b.patience-time.Since(begin)+time.Duration(n)*time.Second/minRate, b.most)
	switch {
	case errors.Is(err, io.EOF): // net/http removes it too, but perhaps before the last read
		_ = b.conn.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, problem.InvalidField.New(
			fmt.Sprintf("The body arrived too slowly: send at least %d bytes a second.", minRate), problem.Cause(err))
	}
	return n, err
}
