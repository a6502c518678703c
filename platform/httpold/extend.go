package httpold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Allowance is the time that Extend gives to a request.
type Allowance struct {
	// Timeout counts from now and replaces what is left of Config.RequestTimeout.
	Timeout time.Duration
	// Stall is how long the body may pause: a Read that gets nothing for so long
	// fails, so that a client that has gone silent holds nothing for ever.
	Stall time.Duration
}

// Extend gives a request more time than Config.RequestTimeout: for the few that
// carry a large body or start long work, each with a bound of its own. It returns
// a request whose context ends at the new deadline (or when the client leaves,
// or when cancel is called) and whose body may take as long; the answer may be
// written a little beyond it. The request that was handed in still ends with its
// old deadline, so use the new one from here on.
//
// Where the connection knows no deadlines, as in a test without one, only the
// context is extended.
func Extend(r *http.Request, by Allowance) (extended *http.Request, cancel context.CancelFunc, err error) {
	ex, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, nil, errors.New("httpserver: Extend of a request that no route has matched")
	}
	deadline := time.Now().Add(by.Timeout)
	ctx, cancel := context.WithDeadline(ex.parent, deadline)
	extended = r.WithContext(&requestContext{ctx, ex})
	conn := http.NewResponseController(ex.w)
	switch err := conn.SetWriteDeadline(deadline.Add(answerGrace)); {
	case errors.Is(err, http.ErrNotSupported):
		return extended, cancel, nil
	case err != nil:
		cancel()
		return nil, nil, fmt.Errorf("httpserver: extend the time for the answer: %w", err)
	}
	if r.Body != nil && r.Body != http.NoBody {
		extended.Body = &patientBody{ReadCloser: r.Body, conn: conn, deadline: deadline, stall: by.Stall}
	}
	return extended, cancel, nil
}

// patientBody is a body that may take until deadline, without a pause longer
// than stall.
type patientBody struct {
	io.ReadCloser

	conn     *http.ResponseController
	deadline time.Time
	stall    time.Duration
}

// Read moves the connection's deadline ahead of each read.
func (b *patientBody) Read(p []byte) (int, error) {
	until := time.Now().Add(b.stall)
	if until.After(b.deadline) {
		until = b.deadline
	}
	if err := b.conn.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("httpserver: extend the time for the body: %w", err)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// From here on net/http reads in the background, to notice that the client
		// leaves; a deadline that passed would look like that. The error is the
		// connection's, and whoever uses it next meets it.
		_ = b.conn.SetReadDeadline(b.deadline.Add(answerGrace))
	}
	return n, err //nolint:wrapcheck // an io.Reader returns what it got
}
