package httpold

import (
	"net/http"
	"time"
)

const (
	// maxStreams is how many requests one HTTP/2 connection may have under way:
	// few clients hold many connections, so MAX_IN_FLIGHT is what bounds them all.
	maxStreams = 1000
	// pingAfter and pongWithin end a connection whose other end is gone.
	pingAfter  = 30 * time.Second
	pongWithin = 10 * time.Second
)

// AllowHTTP2 lets clients speak HTTP/2 beside HTTP/1, on the same port and
// without TLS ("prior knowledge", RFC 9113 section 3.3), as gRPC clients inside a
// cluster do. Call it before Serve.
//
// What holds for a connection of HTTP/1 holds for a stream of HTTP/2: the limits
// of header, body and time, and REQUEST_TIMEOUT. While the server drains, an
// answer's "Connection: close" becomes a GOAWAY: streams under way end in peace,
// new ones go elsewhere.
func (s *Server) AllowHTTP2() {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http.Protocols = &protocols
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pongWithin}
}
