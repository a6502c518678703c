package sqldb

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// socket is a network connection to the server that counts the bytes sent.
type socket struct {
	net.Conn

	raw     syscall.RawConn // nil where the platform has none
	written atomic.Uint64   // bytes handed to the kernel
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.written.Add(uint64(max(n, 0)))
	return n, err
}

// dialer dials for the driver and stores the socket in the slot that
// [connector.Connect] put into the context.
type dialer struct{ net.Dialer }

// socketKey is the context key of that slot. A cancel request dials without it.
type socketKey struct{}

// newDialer returns a dialer whose keep-alive detects a peer that vanished while a
// session was idle, after 15 s + 3 x 5 s.
func newDialer() *dialer {
	const (
		idle     = 15 * time.Second
		interval = 5 * time.Second
		count    = 3
	)
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: count}
	return &dialer{net.Dialer{KeepAliveConfig: keepAlive}}
}

// DialContext connects and wraps the connection in a socket.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn}
	if sc, ok := conn.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // nil with an error
	}
	if slot, ok := ctx.Value(socketKey{}).(**socket); ok {
		*slot = s
	}
	return s, nil
}

// DialTimeout completes the driver's interface; the driver prefers DialContext.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}
