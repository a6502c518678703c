package balance

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func BenchmarkBalance(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer srv.Close()
	s := &source{}
	s.set(srv.Listener.Addr().String())
	bal := New("counts", s, slog.New(slog.DiscardHandler))
	front := httptest.NewServer(bal.server.Handler)
	defer front.Close()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", front.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	request := []byte("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !bytes.Equal(body, []byte("{}")) {
			b.Fatalf("%q %v", body, err)
		}
	}
}
