package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout = 3 * time.Second
	readBuffer  = 4 << 10 // grows up to maxHeader when a header needs it
)

var errTimeout = errors.New("no complete response within the timeout")

// conn is one keep-alive connection with at most one request in flight.
//
// It works on the raw descriptor for the sake of CPU: net.Conn would try to read before it parks, and that first attempt is in vain
// nearly every time. Writing inside the callback of RawConn.Read arms the wait for the response before the request is sent, so a
// response cannot slip in between, and one exchange is one write, one park and one read.
type conn struct {
	tcp  *net.TCPConn
	raw  syscall.RawConn
	step func(fd uintptr) bool // the method value, bound once: binding it for each request would allocate

	request  []byte
	sent     bool
	err      error
	response response
	buffer   []byte
	have     int // bytes of buffer that are received and not consumed

	// deadline is when the watchdog gives the request in flight up, in nanoseconds of the run's clock; 0 means that none is in flight.
	deadline atomic.Int64
}

// condemned in conn.deadline marks a connection that the watchdog has given up.
const condemned = -1

func dial(ctx context.Context, target string) (*conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}

	connection, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}

	tcp, ok := connection.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dial %s: %T is not a TCP connection", target, connection), connection.Close())
	}

	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", target, err), tcp.Close())
	}

	c := &conn{tcp: tcp, raw: raw, buffer: make([]byte, readBuffer)}
	c.step = c.exchange

	return c, nil
}

func (c *conn) close() error {
	if err := c.tcp.Close(); err != nil {
		return fmt.Errorf("close the connection: %w", err)
	}

	return nil
}

// roundTrip sends one request and scans its response. With an error the outcome of the request is unknown, unless nothing was sent, and
// the connection is of no more use. reusable is false, too, when the server asked to close or the watchdog was about to.
func (c *conn) roundTrip(request []byte, deadline int64) (status int, reusable bool, err error) {
	c.request, c.sent, c.err = request, false, nil
	c.response.reset()
	c.deadline.Store(deadline)

	err = c.raw.Read(c.step)
	spared := c.deadline.CompareAndSwap(deadline, 0)

	if err == nil {
		err = c.err
	}

	if err != nil {
		if !spared {
			err = errTimeout
		}

		return 0, false, err
	}

	return c.response.status, spared && c.response.keepAlive, nil
}

// expire gives the connection up when its request is overdue; the goroutine that waits for the response then returns errTimeout.
func (c *conn) expire(now int64) error {
	deadline := c.deadline.Load()
	if deadline <= 0 || now < deadline || !c.deadline.CompareAndSwap(deadline, condemned) {
		return nil
	}

	if err := c.tcp.SetDeadline(time.Unix(1, 0)); err != nil {
		return fmt.Errorf("give up an overdue request: %w", err)
	}

	return nil
}

// exchange is the callback of RawConn.Read: false means "call again when there is something to read".
func (c *conn) exchange(fd uintptr) bool {
	if !c.sent {
		c.sent = true
		c.err = writeAll(int(fd), c.request)

		return c.err != nil
	}

	for {
		if c.have == len(c.buffer) && !c.grow() {
			c.err = errMalformed

			return true
		}

		n, err := syscall.Read(int(fd), c.buffer[c.have:])

		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			c.err = fmt.Errorf("%w: %w", errCut, err)

			return true
		case n == 0:
			c.err = c.response.closed()

			return true
		}

		if c.received(n) {
			return true
		}
	}
}

// received feeds n more bytes to the scanner and reports whether the exchange is over.
func (c *conn) received(n int) bool {
	c.have += n

	consumed, err := c.response.feed(c.buffer[:c.have])
	if err != nil {
		c.err = err

		return true
	}

	c.have = copy(c.buffer, c.buffer[consumed:c.have])

	return c.response.stage == stageDone
}

func (c *conn) grow() bool {
	if len(c.buffer) >= maxHeader {
		return false
	}

	c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)

	return true
}

// writeAll sends a request in one piece. The send buffer is empty, because the answer to the previous request has arrived, so a request
// that does not fit at once shows a connection that is as good as dead.
func writeAll(fd int, request []byte) error {
	for {
		n, err := syscall.Write(fd, request)

		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("%w: %w", errCut, err)
		case n < len(request):
			return fmt.Errorf("%w: only %d of %d bytes were taken", errCut, n, len(request))
		}

		return nil
	}
}
