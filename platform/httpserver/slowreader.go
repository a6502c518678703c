package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// A client must read an answer at partSize in partTime, 64 KiB/s, or its connection is cut: until an answer is written
// the replica holds it.
const (
	// unhurried is how much of an answer has the time of the whole: moving a deadline costs something, which most
	// answers need not pay.
	unhurried = 64 << 10
	partSize  = 320 << 10
	partTime  = 5 * time.Second
	// sendBuffer is asked of the kernel for each connection, which takes up to 4 MiB of an answer otherwise. A full one
	// lets the writer go on only when a third of it is free, and a slow client would seem to make no progress for a
	// while: with 4 MiB one that read 250 KiB/s was cut.
	sendBuffer = 256 << 10
)

// limitSendBuffer is a ConnContext of http.Server.
func limitSendBuffer(ctx context.Context, c net.Conn) context.Context {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // the connection is gone, or the first use of it says why
	}
	return ctx
}

// answerWriter is the http.ResponseWriter of one request. It writes a large answer in parts and gives each a deadline
// of its own: a client that stops reading is cut when one has passed, however much the sockets' buffers took before.
// With HTTP/2 the deadline is the stream's. The time in which a handler makes a part counts too.
type answerWriter struct {
	http.ResponseWriter

	partTime time.Duration
	by       time.Time // the deadline of the whole answer
	deadline time.Time // the present part's
	left     int       // bytes of the present part
	cut      bool      // the client was too slow
}

func newAnswerWriter(w http.ResponseWriter, partTime time.Duration, by time.Time) answerWriter {
	return answerWriter{ResponseWriter: w, partTime: partTime, by: by, deadline: by, left: unhurried}
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write returns the connection's error, or the stream's, after which no more of the answer can be written.
func (w *answerWriter) Write(p []byte) (written int, err error) {
	for {
		n, err := w.ResponseWriter.Write(p[written:min(written+w.left, len(p))])
		written += n
		w.left -= n
		if err != nil {
			w.cut = errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(w.deadline)
			return written, err //nolint:wrapcheck // as an io.Writer does
		}
		if written == len(p) {
			return written, nil
		}
		if err := w.nextPart(); err != nil {
			return written, err
		}
	}
}

func (w *answerWriter) nextPart() error {
	w.left, w.deadline = partSize, time.Now().Add(w.partTime)
	if w.deadline.After(w.by) {
		w.deadline = w.by
	}
	err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.deadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // a test without a connection
		return fmt.Errorf("httpserver: the time for a part of the answer: %w", err)
	}
	return nil
}
