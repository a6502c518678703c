package faultproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// link is one client's connection together with its connection to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ended  chan struct{}
	once   sync.Once

	mu     sync.Mutex
	server serverConn
	rounds []*round // unanswered, in the order of their replies; the last one may still be open
	open   bool     // whether the last round takes more messages

	texts map[string]string // of prepared statements, by name; used by the requests' goroutine alone
}

// round is the messages that the client sends up to a Sync or a simple query, and the server's
// answers up to ReadyForQuery.
type round struct {
	text string // of the statement bound last
	cut  *plan
}

// Codes that stand in place of a protocol version in the first message of a connection.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// headBytes is how much of a message is read before it is passed on. The rest is copied without
// being held in memory.
const headBytes = 64 << 10

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

	requests := bufio.NewReaderSize(l.client, headBytes)
	passive, ok := l.startup(requests, server)
	if !ok {
		return
	}
	var replies sync.WaitGroup
	replies.Go(func() {
		if passive {
			_, _ = io.Copy(l.client, server)
		} else {
			l.relayReplies(server)
		}
		l.end(FIN)
	})
	if passive {
		_, _ = io.Copy(server, requests)
	} else {
		l.relayRequests(requests, server)
	}
	_ = server.CloseWrite()
	replies.Wait()
}

// pass waits while the proxy is paused. It returns false when the link has ended.
func (l *link) pass() bool {
	select {
	case <-l.ended:
		return false
	case <-l.proxy.gate():
		return true
	}
}

// wait delays a message by d. It returns false when the link has ended.
func (l *link) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ended:
		return false
	case <-timer.C:
		return true
	}
}

// startup passes the first message on. passive means that no messages follow that have to be
// read (a cancel request). ok is false when the connection has ended.
func (l *link) startup(requests *bufio.Reader, server io.Writer) (passive, ok bool) {
	for {
		head, err := requests.Peek(8)
		if err != nil {
			return false, false
		}
		length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if code == sslRequest || code == gssRequest {
			if _, err := requests.Discard(8); err != nil {
				return false, false
			}
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return false, false
			}
			continue
		}
		_, err = io.CopyN(server, requests, int64(length))
		return code == cancelRequest, err == nil
	}
}

// message is the head of one typed message.
type message struct {
	kind byte
	head []byte // type, length and up to headBytes of the body
	rest int64  // bytes of the body that are not in head
}

func readMessage(from *bufio.Reader, buffer []byte) (m message, ok bool) {
	const prefix = 5
	if _, err := io.ReadFull(from, buffer[:prefix]); err != nil {
		return message{}, false
	}
	body := int64(binary.BigEndian.Uint32(buffer[1:prefix])) - 4
	inHead := max(min(body, int64(len(buffer)-prefix)), 0)
	if _, err := io.ReadFull(from, buffer[prefix:prefix+inHead]); err != nil {
		return message{}, false
	}
	return message{kind: buffer[0], head: buffer[:prefix+inHead], rest: body - inHead}, true
}

// passOn writes the message, or discards it when to is nil.
func (m message) passOn(from *bufio.Reader, to *bufio.Writer) (ok bool) {
	if to == nil {
		_, err := io.CopyN(io.Discard, from, m.rest)
		return err == nil
	}
	if _, err := to.Write(m.head); err != nil {
		return false
	}
	if _, err := io.CopyN(to, from, m.rest); err != nil {
		return false
	}
	// A client that waits for an answer has sent everything.
	return from.Buffered() > 0 || to.Flush() == nil
}

// relayRequests passes on the client's messages and applies the plans to each statement before
// the server gets it.
func (l *link) relayRequests(from *bufio.Reader, server serverConn) {
	to := bufio.NewWriterSize(server, headBytes)
	buffer := make([]byte, headBytes)
	for {
		m, ok := readMessage(from, buffer)
		if !ok || !l.pass() || !l.wait(l.proxy.delay()) {
			return
		}
		if cut := l.track(m); cut != nil && cut.before() {
			// The rest of the round is not sent; what was sent (Parse, Bind) has no effect without it.
			_ = to.Flush()
			l.end(cut.how)
			return
		}
		if !m.passOn(from, to) {
			return
		}
	}
}

// relayReplies passes on the server's answers, except those to rounds that are cut.
func (l *link) relayReplies(server serverConn) {
	from := bufio.NewReaderSize(server, headBytes)
	client := bufio.NewWriterSize(l.client, headBytes)
	buffer := make([]byte, headBytes)
	started := false
	for {
		m, ok := readMessage(from, buffer)
		if !ok || !l.pass() {
			return
		}
		to := client
		cut := l.cutting()
		// A CopyInResponse is always passed on: without it the statement would never end.
		if cut != nil && m.kind != 'G' {
			to = nil
		}
		if !m.passOn(from, to) {
			return
		}
		if m.kind != 'Z' {
			continue
		}
		if cut != nil {
			_ = client.Flush()
			l.end(cut.how)
			return
		}
		// The first ReadyForQuery of a connection ends its start and answers no round,
		// although the client may have sent one by now.
		if started {
			l.answered()
		}
		started = true
	}
}

// track updates the rounds by a message of the client. When the message makes the server
// execute a statement that is to be cut, it returns the plan.
func (l *link) track(m message) *plan {
	body := m.head[5:]
	switch m.kind {
	case 'P':
		name, rest := cString(body)
		l.texts[name], _ = cString(rest)
		l.round()
	case 'B':
		_, rest := cString(body)
		name, _ := cString(rest)
		l.round().text = l.texts[name]
	case 'E':
		return l.execute(l.round())
	case 'Q':
		r := l.round()
		r.text, _ = cString(body)
		defer l.seal()
		return l.execute(r)
	case 'S', 'F':
		l.round()
		l.seal()
	case 'C':
		if name, _ := cString(body[min(1, len(body)):]); len(body) > 0 && body[0] == 'S' {
			delete(l.texts, name)
		}
		l.round()
	case 'D', 'H':
		l.round()
	}
	return nil
}

// round returns the round that the client is sending.
func (l *link) round() *round {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		l.rounds = append(l.rounds, &round{})
		l.open = true
	}
	return l.rounds[len(l.rounds)-1]
}

// seal ends the round that the client is sending.
func (l *link) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
}

func (l *link) execute(r *round) *plan {
	cut := l.proxy.match(r.text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.cut == nil {
		r.cut = cut
	}
	return cut
}

// cutting returns the plan for the round whose reply is coming, or nil.
func (l *link) cutting() *plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rounds) == 0 {
		return nil
	}
	return l.rounds[0].cut
}

// answered removes the round whose ReadyForQuery has been passed on.
func (l *link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rounds) > 0 {
		l.rounds = l.rounds[1:]
	}
}

// cString splits b at the first NUL byte. Without one the string is all of b, as for a text
// longer than headBytes.
func cString(b []byte) (text string, rest []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}

// end ends the link, once. It closes the server's side first, so that the backend rolls back
// before the client can connect again.
func (l *link) end(how How) {
	l.once.Do(func() {
		close(l.ended)
		l.mu.Lock()
		server := l.server
		l.mu.Unlock()
		if server != nil {
			_ = server.Close()
		}
		switch how {
		case RST:
			_ = l.client.SetLinger(0)
			_ = l.client.Close()
		case Hang:
			l.proxy.hang(l.client)
		case FIN:
			// Closing a socket with unread bytes resets the connection, so the rest is read first.
			_ = l.client.CloseWrite()
			_ = l.client.SetReadDeadline(time.Now().Add(time.Second))
			l.proxy.wg.Go(func() {
				_, _ = io.Copy(io.Discard, l.client)
				_ = l.client.Close()
			})
		}
	})
}
