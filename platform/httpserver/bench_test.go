package httpserver

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// rewinder is a body that can be read again.
type rewinder struct{ strings.Reader }

func (*rewinder) Close() error { return nil }

const benchBody = `{"amount":17}`

func benchServer(b *testing.B) *Server {
	b.Helper()
	s, err := New(Config{Name: "api", Addr: "127.0.0.1:0"}, Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	type result struct {
		ItemID string `json:"itemId"`
		Value  int64  `json:"value"`
	}
	s.Handle(http.MethodPost, "/api/v1/counts/{itemId}/increase", func(w http.ResponseWriter, r *http.Request) error {
		id, err := PathParam(r, "itemId")
		if err != nil {
			return err
		}
		var body struct {
			Amount *int64 `json:"amount"`
		}
		if err := DecodeJSON(r, &body, AllowEmpty()); err != nil {
			return err
		}
		amount := int64(1)
		if body.Amount != nil {
			amount = *body.Amount
		}
		return WriteJSON(w, http.StatusOK, result{id, amount})
	})
	s.Handle(http.MethodGet, "/nothing", func(http.ResponseWriter, *http.Request) error { return nil })
	return s
}

// BenchmarkStack is everything between net/http and a handler that does nothing.
func BenchmarkStack(b *testing.B) { benchmarkRequest(b, http.MethodGet, "/nothing", "") }

// BenchmarkIncrease is counts' hot path without its database.
func BenchmarkIncrease(b *testing.B) {
	benchmarkRequest(b, http.MethodPost, "/api/v1/counts/item-4711/increase", "")
}

// BenchmarkIncreaseAmount is the same with a body.
func BenchmarkIncreaseAmount(b *testing.B) {
	benchmarkRequest(b, http.MethodPost, "/api/v1/counts/item-4711/increase", benchBody)
}

func benchmarkRequest(b *testing.B, method, path, body string) {
	b.Helper()
	s := benchServer(b)
	r, err := http.NewRequestWithContext(b.Context(), method, path, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	r.ContentLength = int64(len(body))
	again := new(rewinder)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		if body != "" {
			again.Reset(body)
			r.Body = again
		}
		s.ServeHTTP(w, r)
	}
}

// BenchmarkDecodeJSON is the decoder with reading the body.
func BenchmarkDecodeJSON(b *testing.B) {
	r := request(b, benchBody, "Content-Type", "application/json")
	again := new(rewinder)
	r.Body = again
	b.ReportAllocs()
	for b.Loop() {
		again.Reset(benchBody)
		var v struct {
			Amount *int64 `json:"amount"`
		}
		if err := DecodeJSON(r, &v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTCP has net/http and the kernel in it: requests pipelined by 16 on
// each connection, so that the client weighs little.
func BenchmarkTCP(b *testing.B) {
	s := benchServer(b)
	if err := s.Listen(b.Context()); err != nil {
		b.Fatal(err)
	}
	addr := serveUntilEnd(b, s, s.http.Close)
	const pipelined = 16
	request := strings.Repeat("POST /api/v1/counts/item-4711/increase HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n"+benchBody, pipelined)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var d net.Dialer
		c, err := d.DialContext(b.Context(), "tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		in := bufio.NewReader(c)
		for left := 0; pb.Next(); left-- {
			if left == 0 {
				if _, err := io.WriteString(c, request); err != nil {
					b.Error(err)
					return
				}
				left = pipelined
			}
			for { // one answer: its header to the blank line, then the line of JSON
				line, err := in.ReadSlice('\n')
				if err != nil {
					b.Error(err)
					return
				}
				if line[0] == '{' {
					break
				}
			}
		}
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
}
