package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// link is a client's connection with the corresponding connection to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ended  chan struct{}
	once   sync.Once // ends the link
	left   sync.Once // ends the client's side

	// Used only by the goroutine of the requests: the texts of prepared statements, by name, and of
	// the statement bound last.
	texts map[string]string
	bound string

	mu     sync.Mutex
	server serverConn
	// A round is what the client sends up to a Sync or a simple query. The server ends its answer to
	// each with one ReadyForQuery. answered starts at -1, because the startup ends with one too.
	sent, answered int
	cut            *plan // for the round cutRound; nil: none
	cutRound       int
}

// Codes in place of a protocol version in the first message of a connection.
const (
	sslRequest = 80877103
	gssRequest = 80877104
)

func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.end(FIN)
	if !l.pass() {
		return
	}

	server, err := l.proxy.dial()
	if err != nil {
		return
	}
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	defer func() { _ = server.Close() }()

	requests := bufio.NewReader(l.client)
	relayRequests, relayReplies := l.relayRequests, l.relayReplies
	if l.proxy.mysql {
		relayRequests, relayReplies = l.relayPackets, l.relayResults
	} else if !l.startup(requests, server) {
		return
	}

	var replies sync.WaitGroup
	replies.Go(func() {
		relayReplies(server)
		l.end(FIN)
	})

	if relayRequests(requests, server) {
		_ = server.CloseWrite()
	}
	replies.Wait()
}

// pass waits while the proxy is paused. It returns false if the link has ended.
func (l *link) pass() bool {
	select {
	case <-l.ended:
		return false
	case <-l.proxy.gate():
		return true
	}
}

// wait delays a message by d. It returns false if the link has ended.
func (l *link) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-l.ended:
		return false
	case <-time.After(d):
		return true
	}
}

// startup passes on the first message, after refusing requests for TLS. It returns false if the
// connection has ended.
func (l *link) startup(requests *bufio.Reader, server io.Writer) bool {
	for {
		head, err := requests.Peek(8)
		if err != nil {
			return false
		}

		length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if code != sslRequest && code != gssRequest {
			_, err = io.CopyN(server, requests, int64(length))
			return err == nil
		}

		_, readErr := requests.Discard(len(head))
		if _, err := l.client.Write([]byte{'N'}); err != nil || readErr != nil {
			return false
		}
	}
}

// header is the size of a message's type and length.
const header = 5

// readMessage reads one typed message, including its header.
func readMessage(from *bufio.Reader) ([]byte, error) {
	head, err := from.Peek(header)
	if err != nil {
		return nil, err
	}
	m := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	_, err = io.ReadFull(from, m)
	return m, err
}

// passOn writes a message that was read from from.
func passOn(m []byte, from *bufio.Reader, to *bufio.Writer) (ok bool) {
	if _, err := to.Write(m); err != nil {
		return false
	}
	// Flush only when the client has sent everything, because it may now wait for the answer.
	return from.Buffered() > 0 || to.Flush() == nil
}

// relayRequests passes on the client's messages, and applies the plans to each statement before the server gets it. It
// returns false if the server shall finish its statement without the client.
func (l *link) relayRequests(from *bufio.Reader, server serverConn) bool {
	to := bufio.NewWriter(server)
	for {
		m, err := readMessage(from)
		if err != nil || !l.pass() || !l.wait(l.proxy.delay()) {
			return true
		}

		if cut := l.track(m); cut != nil && cut.before() {
			// The rest of the round is not sent. The part that was sent (Parse, Bind) has no effect alone.
			_ = to.Flush()
			l.end(cut.how)
			return true
		}

		if !passOn(m, from, to) {
			return true
		}
		if cut := l.underWay(); cut != nil && to.Flush() == nil {
			l.leave(cut.how)
			return false
		}
	}
}

// relayReplies passes on the server's answers, except the answers to the round that is cut.
func (l *link) relayReplies(server serverConn) {
	from, client := bufio.NewReader(server), bufio.NewWriter(l.client)
	for {
		m, err := readMessage(from)
		if err != nil || !l.pass() {
			return
		}

		// Always pass on a CopyInResponse: without it the statement would never end.
		kind, cut := m[0], l.cutting()
		if (cut == nil || kind == 'G') && !passOn(m, from, client) {
			return
		}

		if kind != 'Z' {
			continue
		}

		// A ReadyForQuery ends the round.
		if cut != nil {
			_ = client.Flush()
			l.end(cut.how)
			return
		}
		l.mu.Lock()
		l.answered++
		l.mu.Unlock()
	}
}

// track records what a message of the client makes the server do. If that is a statement to be cut,
// it returns the plan.
func (l *link) track(m []byte) *plan {
	nul := []byte{0}
	name, rest, _ := bytes.Cut(m[header:], nul)
	switch m[0] {
	case 'P': // Parse: the statement's name, its text
		text, _, _ := bytes.Cut(rest, nul)
		l.texts[string(name)] = string(text)
	case 'B': // Bind: the portal's name, the statement's
		statement, _, _ := bytes.Cut(rest, nul)
		l.bound = l.texts[string(statement)]
	case 'E': // Execute
		return l.execute(l.bound)
	case 'Q': // a simple query: its text
		defer l.endRound()
		return l.execute(string(name))
	case 'S', 'F': // Sync, a function call
		l.endRound()
	}
	return nil
}

// execute returns the plan for a statement in the round that the client is sending; nil if there is none.
func (l *link) execute(text string) *plan {
	cut := l.proxy.match(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut, l.cutRound = cut, l.sent
	}
	return cut
}

// underWay returns the plan to cut the client during a round that the server has completely; nil if there is none.
func (l *link) underWay() *plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil || l.cut.when != DuringStatement || l.cutRound == l.sent {
		return nil
	}
	return l.cut
}

func (l *link) endRound() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
}

// cutting returns the plan for the round that is being answered; nil if there is none.
func (l *link) cutting() *plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered != l.cutRound {
		return nil
	}
	return l.cut
}

// end ends the link, once. It closes the server's side first, so that the backend rolls back
// before the client can reconnect.
func (l *link) end(how How) {
	l.once.Do(func() {
		close(l.ended)
		l.mu.Lock()
		server := l.server
		l.mu.Unlock()
		if server != nil {
			_ = server.Close()
		}
		l.leave(how)
	})
}

// leave ends the client's side, once.
func (l *link) leave(how How) {
	l.left.Do(func() {
		switch how {
		case RST:
			_ = l.client.SetLinger(0)
			_ = l.client.Close()
		case Hang:
			l.proxy.hang(l.client)
		case FIN:
			// Closing a socket with unread bytes resets the connection, so read the rest first.
			_ = l.client.CloseWrite()
			_ = l.client.SetReadDeadline(time.Now().Add(time.Second))
			l.proxy.wg.Go(func() {
				_, _ = io.Copy(io.Discard, l.client)
				_ = l.client.Close()
			})
		}
	})
}
