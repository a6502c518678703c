// Package mariaproxy is a TCP proxy in front of MariaDB that loses the reply to one statement:
// it reads enough of the protocol to know a COM_QUERY and its text, passes it on, waits until
// the server has answered, and ends the client's connection instead of answering. Package
// faultproxy does more, for PostgreSQL.
package mariaproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	upstream string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	match string // of the statement whose reply is lost next; "" none
	lose  bool   // the request too
	cuts  int
}

// New starts a proxy in front of dsn's server; it ends with the test.
func New(t testing.TB, dsn string) *Proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("mariaproxy: the DSN must be a URL")
	}
	listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("mariaproxy: %v", err)
	}
	p := &Proxy{listener: listener, upstream: u.Host, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Drop()
		p.wg.Wait()
	})
	return p
}

// DSN returns dsn, a mysql:// URL, with the proxy's address. It panics when dsn is not a URL.
func (p *Proxy) DSN(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic("mariaproxy: the DSN must be a URL")
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// CutReply loses the reply to the next statement that begins with text.
func (p *Proxy) CutReply(text string) { p.order(text, false) }

// CutRequest loses the next statement that begins with text: the server never gets it, and the
// client cannot know.
func (p *Proxy) CutRequest(text string) { p.order(text, true) }

func (p *Proxy) order(text string, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.lose = text, lose
}

// Cuts returns how many statements were cut so far.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Drop ends all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		swallow := make(chan struct{}) // closed: the next reply is not passed on
		p.wg.Go(func() { p.requests(client, server, swallow) })
		p.wg.Go(func() { p.replies(client, server, swallow) })
	}
}

func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// header is the size of a packet's header: three bytes of length, one sequence number.
const header, comQuery = 4, 3

func (p *Proxy) requests(client, server net.Conn, swallow chan struct{}) {
	defer p.end(client, server)
	from := bufio.NewReader(client)
	for {
		var head [header]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		packet := make([]byte, header+size)
		copy(packet, head[:])
		if _, err := io.ReadFull(from, packet[header:]); err != nil {
			return
		}
		cut, lose := false, false
		if head[3] == 0 && size > 0 && packet[header] == comQuery {
			cut, lose = p.takeMatch(string(packet[header+1:]))
		}
		if lose {
			return
		}
		if cut {
			close(swallow)
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
		if cut { // replies ends the connection; what the client sends until then is discarded
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// takeMatch removes the plan when it fits the statement, and returns whether to lose the
// reply (cut) or the request (lose).
func (p *Proxy) takeMatch(statement string) (cut, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.match == "" || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(statement)), strings.ToLower(p.match)) {
		return false, false
	}
	p.match = ""
	p.cuts++
	return true, p.lose
}

func (p *Proxy) replies(client, server net.Conn, swallow <-chan struct{}) {
	defer p.end(client, server)
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		select {
		case <-swallow:
			return
		default:
		}
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil && !errors.Is(err, io.ErrNoProgress) {
			return
		}
	}
}
