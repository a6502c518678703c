package faultproxy

import (
	"bufio"
	"io"
)

// packetHeader is the size of a MySQL packet's header: three bytes of length, one sequence number. The code of a
// command follows.
const packetHeader, comQuery = 4, 3

// relayPackets does for a client of MySQL what relayRequests does for one of PostgreSQL: it recognises the text of a
// COM_QUERY, and cuts before the server has it or after the server has answered.
func (l *link) relayPackets(from *bufio.Reader, server serverConn) bool {
	for {
		head, err := from.Peek(packetHeader)
		if err != nil {
			return true
		}
		packet := make([]byte, packetHeader+(int(head[0])|int(head[1])<<8|int(head[2])<<16))
		if _, err := io.ReadFull(from, packet); err != nil || !l.pass() || !l.wait(l.proxy.delay()) {
			return true
		}

		// A command begins with sequence number 0.
		if packet[3] == 0 && len(packet) > packetHeader && packet[packetHeader] == comQuery {
			if cut := l.execute(string(packet[packetHeader+1:])); cut != nil && cut.before() {
				l.end(cut.how)
				return true
			}
		}

		if _, err := server.Write(packet); err != nil {
			return true
		}
	}
}

// relayResults passes on the answers of MySQL. The client sends no request before it has read the last answer, so all
// that comes once a request is to be cut answers that.
func (l *link) relayResults(server serverConn) {
	for answer := make([]byte, 32<<10); ; {
		n, err := server.Read(answer)
		if err != nil || !l.pass() {
			return
		}

		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut != nil {
			l.end(cut.how)
			return
		}
		if _, err := l.client.Write(answer[:n]); err != nil {
			return
		}
	}
}
