package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// serverConn is a connection to the server, with TLS or without.
type serverConn interface {
	net.Conn
	CloseWrite() error
}

// dialTimeout bounds connecting to the server, including TLS.
const dialTimeout = 10 * time.Second

// dial connects to the server.
func (p *Proxy) dial() (serverConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()

	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.server())
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}

	plain, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("faultproxy: no TCP connection"), conn.Close())
	}
	if p.secure == nil {
		return plain, nil
	}

	secured, err := upgrade(ctx, plain, p.secure)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("faultproxy: %w", err), plain.Close())
	}
	return secured, nil
}

// upgrade asks the server for TLS, which must be the first request of a connection.
func upgrade(ctx context.Context, plain net.Conn, config *tls.Config) (*tls.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = plain.Close() })
	defer stop()

	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	if _, err := plain.Write(request); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(plain, answer); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	if answer[0] != 'S' {
		return nil, errors.New("the server does not support TLS")
	}

	secured := tls.Client(plain, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("begin TLS: %w", err)
	}
	return secured, nil
}
