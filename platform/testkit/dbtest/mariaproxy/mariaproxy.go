// Package mariaproxy is a TCP proxy in front of MariaDB that loses the reply to one statement. It
// reads enough of the protocol to recognise a COM_QUERY and its text, passes it on, waits until
// the server has answered, and then ends the client's connection instead of answering. Package
// faultproxy does more, for PostgreSQL.
package mariaproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	upstream string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // of both sides, including those that have ended
	match string     // prefix of the statement to cut next; "": none
	lose  bool       // lose the request instead of the reply
	cuts  int
}

// New starts a proxy in front of dsn's server. The proxy ends with the test.
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

	p := &Proxy{listener: listener, upstream: u.Host}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Drop()
		p.wg.Wait()
	})
	return p
}

// DSN returns dsn, a mysql:// URL, with the proxy's address. It panics if dsn is not a URL.
func (p *Proxy) DSN(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic("mariaproxy: the DSN must be a URL")
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// CutReply loses the reply to the next statement that begins with text, ignoring case.
func (p *Proxy) CutReply(text string) { p.order(text, false) }

// CutRequest loses the next statement that begins with text: the server never gets it. The client
// cannot know that.
func (p *Proxy) CutRequest(text string) { p.order(text, true) }

func (p *Proxy) order(text string, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.lose = strings.ToLower(text), lose
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
	for _, c := range p.conns {
		_ = c.Close() // it may be closed already
	}
}

// accept connects clients to the server until the listener is closed.
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
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()

		end := func() { _, _ = client.Close(), server.Close() }
		replies := &replies{to: client}
		p.wg.Go(func() {
			defer end()
			p.relayRequests(client, server, replies)
		})
		p.wg.Go(func() {
			defer end()
			_, _ = io.Copy(replies, server)
		})
	}
}

// replies passes on the server's answers until it is cut.
type replies struct {
	to  net.Conn
	cut atomic.Bool
}

func (r *replies) Write(answer []byte) (int, error) {
	if r.cut.Load() {
		return 0, net.ErrClosed
	}
	return r.to.Write(answer)
}

// header is the size of a packet's header: three bytes of length, one sequence number.
const header, comQuery = 4, 3

// relayRequests passes on the client's packets until a request or the reply to one is cut.
func (p *Proxy) relayRequests(client, server net.Conn, replies *replies) {
	from := bufio.NewReader(client)
	for {
		head, err := from.Peek(header)
		if err != nil {
			return
		}

		packet := make([]byte, header+(int(head[0])|int(head[1])<<8|int(head[2])<<16))
		if _, err := io.ReadFull(from, packet); err != nil {
			return
		}

		// A command begins with sequence number 0.
		if packet[3] == 0 && len(packet) > header && packet[header] == comQuery {
			cut, lose := p.takeMatch(string(packet[header+1:]))
			if lose {
				return
			}
			if cut {
				replies.cut.Store(true)
			}
		}

		if _, err := server.Write(packet); err != nil {
			return
		}
	}
}

// takeMatch reports whether the statement is the next one to cut, and whether to lose the request instead of the reply.
func (p *Proxy) takeMatch(statement string) (cut, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.match == "" || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(statement)), p.match) {
		return false, false
	}

	p.match = ""
	p.cuts++
	return true, p.lose
}
