// Package faultproxy is a TCP proxy in front of PostgreSQL that loses chosen replies. It reads
// enough of the wire protocol (version 3) to know which reply answers which statement. It can
// discard the reply to an UPDATE or a COMMIT that the server has executed, and then end the
// connection. With it tests reach the third outcome of a write: unknown. It can also lose
// requests, and delay, refuse and drop connections. It does the same for MySQL and MariaDB,
// except for DuringStatement and for prepared statements.
//
//	proxy := faultproxy.New(t, dsn)
//	db := open(proxy.DSN(dsn))
//	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("UPDATE"))
package faultproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	secure  *tls.Config // nil: no TLS
	mysql   bool        // its clients speak MySQL's protocol
	address string
	wg      sync.WaitGroup

	mu       sync.Mutex
	upstream string
	listener *net.TCPListener // nil while refusing
	links    map[*link]struct{}
	hung     []*net.TCPConn // connections kept open by Hang
	plans    []*plan
	cuts     int
	resumed  chan struct{} // closed unless paused
	slowest  time.Duration // see Slow
	closed   bool
}

// New starts a proxy in front of dsn's server, a postgres:// URL, or a mysql:// URL with a port. The
// proxy ends with the test.
func New(t testing.TB, dsn string) *Proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Fatal("faultproxy: the DSN must be a URL with a host")
	}
	p, err := start(&Proxy{upstream: u.Host, mysql: u.Scheme == "mysql"})
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Start starts a proxy in front of the server at upstream, "host:port", until Close. If secure is
// not nil, the proxy uses TLS to the server, and refuses a server without TLS. It never uses TLS to
// its clients, because it reads their messages.
func Start(upstream string, secure *tls.Config) (*Proxy, error) {
	return start(&Proxy{upstream: upstream, secure: secure})
}

// start makes the proxy listen.
func start(p *Proxy) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(p.upstream); err != nil {
		p.upstream = net.JoinHostPort(p.upstream, "5432")
	}
	p.links, p.resumed = make(map[*link]struct{}), make(chan struct{})
	close(p.resumed)

	const tries = 10
	for try := 1; ; try++ {
		// Not port 0: Accept must get the same port again after Refuse, and the system may give its
		// ephemeral ports to others.
		port, err := guard.FreePort(context.Background())
		if err != nil {
			return nil, err
		}
		p.address = fmt.Sprintf("127.0.0.1:%d", port)

		err = p.Accept()
		if err == nil {
			return p, nil
		}
		if try == tries {
			return nil, err
		}
	}
}

// DSN returns dsn with the proxy's address, and for PostgreSQL with sslmode=disable. It panics if
// dsn is not a URL.
func (p *Proxy) DSN(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		panic("faultproxy: the DSN must be a URL with a host")
	}
	u.Host = p.address
	if p.mysql {
		return u.String()
	}

	query := u.Query()
	query.Set("sslmode", "disable")
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.Drop(FIN)
	p.Resume()
	p.wg.Wait()
}

// Cuts returns how many statements Cut and CutEvery have cut so far. A connection ends only after
// the server has answered the statement.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Pause stops all traffic: connections stay open and new ones are accepted, but nothing passes
// in either direction.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
		p.resumed = make(chan struct{})
	default:
	}
}

// Resume ends Pause and passes on the traffic that was held back.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
	default:
		close(p.resumed)
	}
}

// Slow delays every message of a client by a random time below slowest; 0 ends that.
func (p *Proxy) Slow(slowest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = slowest
}

// delay returns how long the next message waits.
func (p *Proxy) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slowest <= 0 {
		return 0
	}
	return rand.N(p.slowest)
}

// gate returns a channel that is closed while traffic may pass.
func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed
}

// Refuse closes the port, so that new connections are refused. Open connections remain; see Drop.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		stopListening(p.listener)
		_ = p.listener.Close() // fails only if it is already closed
		p.listener = nil
	}
}

// stopListening ends the listening itself, not only this process's share of it. A child that is
// being started has this process's open files until it executes its program, and would keep the
// port open. Some systems cannot shut down a listening socket; there nothing changes.
func stopListening(listener *net.TCPListener) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
}

// Accept ends Refuse. It fails if another process has taken the port meanwhile.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if p.listener != nil {
		return nil
	}
	address, err := net.ResolveTCPAddr("tcp", p.address)
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	p.listener = listener
	p.wg.Go(func() { p.serve(listener) })
	return nil
}

// Redirect sends new connections to another server, "host:port", as a name that moves does. Open
// connections remain.
func (p *Proxy) Redirect(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// server returns the destination of new connections.
func (p *Proxy) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upstream
}

// Drop ends every open connection.
func (p *Proxy) Drop(how How) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()

	for _, l := range links {
		l.end(how)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.hung {
		_ = conn.Close() // the client may have closed it
	}
	p.hung = nil
}

// hang keeps a client's connection open until Drop or Close.
func (p *Proxy) hang(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = append(p.hung, client)
}

// serve accepts clients until the listener is closed.
func (p *Proxy) serve(listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EINVAL) { // the latter after stopListening
			return
		}
		if err != nil {
			// Out of file descriptors: clients wait in the backlog.
			<-time.After(10 * time.Millisecond)
			continue
		}

		l := &link{proxy: p, client: client, ended: make(chan struct{}), texts: make(map[string]string), answered: -1}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			l.end(FIN)
			return
		}
		p.links[l] = struct{}{}
		p.wg.Go(l.run)
		p.mu.Unlock()
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
