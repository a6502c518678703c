package httpserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// A client must read an answer at partSize in partTime, 64 KiB/s, or its connection is cut: the replica holds an answer
// in memory until it is written.
const (
	// unhurried is how much of an answer may take the time of the whole: moving a deadline has a cost, which most answers
	// need not pay.
	unhurried = 64 << 10
	partSize  = 320 << 10
	partTime  = 5 * time.Second
	// sendBuffer is the size of each connection's send buffer. The kernel would buffer up to 4 MiB of an answer, and it
	// wakes the writer only when a third of a full buffer is free. A slow client then seems to make no progress: with
	// 4 MiB, a client reading at 250 KiB/s was cut.
	sendBuffer = 256 << 10
)

// limitSendBuffer sets the size of the connection's send buffer.
func limitSendBuffer(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // fails if the connection is gone, which its first use reports
	}
}

// answerWriter is the http.ResponseWriter of one request. It writes a large answer in parts with a deadline each: a
// client that stops reading is cut at the next deadline, however much the socket buffers took before. With HTTP/2 the
// deadline applies to the stream. The time that a handler takes to produce a part counts too.
type answerWriter struct {
	http.ResponseWriter

	partTime time.Duration
	by       time.Time // the deadline of the whole answer
	deadline time.Time // of the current part
	left     int       // bytes left in the current part
	cut      bool      // the client was too slow
}

func newAnswerWriter(w http.ResponseWriter, partTime time.Duration, by time.Time) answerWriter {
	return answerWriter{ResponseWriter: w, partTime: partTime, by: by, deadline: by, left: unhurried}
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write returns the error of the connection or stream, after which no more of the answer can be written.
func (w *answerWriter) Write(p []byte) (written int, err error) {
	for {
		n, err := w.ResponseWriter.Write(p[written:min(written+w.left, len(p))])
		written += n
		w.left -= n
		if err != nil {
			w.cut = errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(w.deadline)
			return written, err
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
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // a test has no connection
		return fmt.Errorf("httpserver: set the deadline for a part of the answer: %w", err)
	}
	return nil
}
