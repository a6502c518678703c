package httpold

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"github.com/rowlock/rowlock/platform/problem"
)

// net/http refuses a header that is too large, malformed or beyond it before any
// handler is asked, in plain text, straight to the connection, and offers no
// hook. The connection is the one place where such an answer can be turned into
// the problem+json that every other refusal is.

// The rows of the error table that only these refusals have.
var (
	expectationFailed   = problem.Define("EXPECTATION_FAILED", http.StatusExpectationFailed, "")
	notImplemented      = problem.Define("NOT_IMPLEMENTED", http.StatusNotImplemented, "")
	versionNotSupported = problem.Define("HTTP_VERSION_NOT_SUPPORTED", http.StatusHTTPVersionNotSupported, "")
)

// refusingListener hands out connections that do so.
type refusingListener struct {
	net.Listener

	answer func(status int) []byte
}

// Accept waits for the next connection.
func (l refusingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http looks at it as it is
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	return refusingConn{TCPConn: tcp, answer: l.answer}, nil
}

// refusingConn embeds the concrete type: net/http looks for its CloseWrite and ReadFrom.
type refusingConn struct {
	*net.TCPConn

	answer func(status int) []byte
}

// Write passes p on, or the server's own answer where p is a refusal by net/http.
func (c refusingConn) Write(p []byte) (int, error) {
	if status := refusalStatus(p); status != 0 {
		if own := c.answer(status); own != nil {
			if _, err := c.TCPConn.Write(own); err != nil {
				return 0, err //nolint:wrapcheck // a connection's error as it is
			}
			return len(p), nil
		}
	}
	return c.TCPConn.Write(p) //nolint:wrapcheck // a connection's error as it is
}

// refusalTail is what follows the status line of every refusal by net/http but
// 417; an answer of a handler always has more headers (Date) in between.
const refusalTail = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusalStatus is the status of a refusal written by net/http itself, else 0.
func refusalStatus(p []byte) int {
	const (
		version = "HTTP/1.1 " // or 1.0
		minor   = len("HTTP/1.")
		digits  = len("417")
		longest = 512
	)
	if len(p) > longest || len(p) < len(version)+digits || p[len(version)] < '4' ||
		!bytes.HasPrefix(p, []byte(version[:minor])) {
		return 0
	}
	status, err := strconv.Atoi(string(p[len(version) : len(version)+digits]))
	if err != nil {
		return 0
	}
	if status == http.StatusExpectationFailed {
		// The one refusal that looks like a handler's answer. Those all have this header.
		if bytes.Contains(p, []byte("\r\n"+headerRequestID+": ")) {
			return 0
		}
		return status
	}
	line, _, ok := bytes.Cut(p, []byte(refusalTail))
	if !ok || bytes.Contains(line, []byte("\r\n")) {
		return 0
	}
	return status
}

// refusedByNetHTTP is the answer in place of net/http's, nil to leave it.
func (s *Server) refusedByNetHTTP(status int) []byte {
	var refusal *problem.Error
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		refusal = problem.HeadersTooLarge.New("The request line and the headers are larger than 32 KiB.")
	case http.StatusBadRequest:
		refusal = problem.InvalidField.New("The request is not valid HTTP: its request line or a header is malformed, " +
			"or its path has a bad percent escape.")
	case http.StatusExpectationFailed:
		refusal = expectationFailed.New("The only expectation that this server meets is 100-continue.")
	case http.StatusNotImplemented:
		refusal = notImplemented.New("The only transfer encoding that this server reads is chunked.")
	case http.StatusHTTPVersionNotSupported:
		refusal = versionNotSupported.New("This server speaks HTTP/1.0 and HTTP/1.1.")
	default:
		return nil
	}
	id := newRequestID()
	s.metrics.observe(methodOther, routeUnmatched, status, 0)
	if s.cfg.LogRequests != logNone {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "request refused",
			slog.String("server", s.name), slog.Int("status", status),
			slog.String("code", refusal.Kind().Code()), slog.String("request_id", id))
	}

	rec := recorder{header: http.Header{headerRequestID: {id}}}
	if err := s.answer(&rec, nil, refusal, id); err != nil {
		return nil
	}
	rec.header.Del("Content-Length") // http.Response writes its own
	raw := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: rec.header, ContentLength: int64(rec.body.Len()), Body: io.NopCloser(&rec.body),
	}
	var out bytes.Buffer
	if err := raw.Write(&out); err != nil {
		return nil
	}
	return out.Bytes()
}

// recorder keeps an answer that has no connection of net/http's kind to go to.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(int) {}

func (r *recorder) Write(p []byte) (int, error) {
	return r.body.Write(p) //nolint:wrapcheck // a bytes.Buffer has no errors
}
