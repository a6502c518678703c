package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	dialTimeout = 3 * time.Second
	readBuffer  = 8 << 10 // bounds the header of a response
)

// conn holds one keep-alive connection with at most one request in flight.
type conn struct {
	net.Conn

	reader   *bufio.Reader
	response fasthttp.Response // its body is overwritten by the next one
	timeout  time.Duration
	armed    time.Duration // when the read deadline was last set, on the clock of the run
}

func dial(ctx context.Context, target string, timeout time.Duration) (*conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}

	connection, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}

	reader := bufio.NewReaderSize(connection, readBuffer)

	return &conn{Conn: connection, reader: reader, timeout: timeout, armed: -timeout}, nil
}

// roundTrip sends one request and reads its response. With an error the outcome of the request is unknown, and the
// connection cannot be used again; reusable is false, too, when the server asked to close it.
func (c *conn) roundTrip(request []byte, now time.Duration) (status int, reusable bool, err error) {
	// A new deadline for each request would cost as much as the rest of this function: it is renewed ten times per
	// timeout.
	if slack := c.timeout / 10; now-c.armed > slack {
		if err := c.SetReadDeadline(time.Now().Add(c.timeout + slack)); err != nil {
			return 0, false, fmt.Errorf("set the deadline: %w", err)
		}

		c.armed = now
	}

	if _, err := c.Write(request); err != nil {
		return 0, false, fmt.Errorf("send the request: %w", err)
	}

	if err := c.response.Read(c.reader); err != nil {
		return 0, false, fmt.Errorf("read the response: %w", err)
	}

	return c.response.StatusCode(), !c.response.ConnectionClose() && c.reader.Buffered() == 0, nil
}

// Failure names a way in which a request gets no HTTP answer.
type Failure string

// The closed set of failures. After FailureDial nothing was sent; after the others the outcome of the request is
// unknown.
const (
	FailureDial      Failure = "dial"
	FailureCut       Failure = "cut"
	FailureTimeout   Failure = "timeout"
	FailureMalformed Failure = "malformed"
)

// failureOf returns the failure that an error of roundTrip shows, "" for nil.
func failureOf(err error) Failure {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded):
		return FailureTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FailureCut
	default:
		return FailureMalformed
	}
}
