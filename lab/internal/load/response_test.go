package load

import (
	"errors"
	"strings"
	"testing"
)

// scanAll feeds a response in pieces of the given size, as a network may deliver it.
func scanAll(raw string, piece int, closed bool) (response, error) {
	var (
		r      response
		buffer []byte
	)

	for raw != "" && r.stage != stageDone {
		n := min(piece, len(raw))
		buffer = append(buffer, raw[:n]...)
		raw = raw[n:]

		consumed, err := r.feed(buffer)
		if err != nil {
			return r, err
		}

		buffer = buffer[consumed:]
	}

	if r.stage == stageDone && raw != "" {
		return r, errMalformed
	}

	if r.stage != stageDone && closed {
		err := r.closed()

		return r, err
	}

	return r, nil
}

func TestResponse(t *testing.T) {
	t.Parallel()

	const (
		interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	)

	tests := map[string]struct {
		raw       string
		status    int
		keepAlive bool
		closed    bool // the server closes behind it
	}{
		"length":            {raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, keepAlive: true},
		"length, any case":  {raw: "HTTP/1.1 201 Created\r\ncOnTeNt-LeNgTh:  2 \r\n\r\nok", status: 201, keepAlive: true},
		"empty body":        {raw: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", status: 404, keepAlive: true},
		"no content":        {raw: "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", status: 204, keepAlive: true},
		"no reason":         {raw: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200, keepAlive: true},
		"close":             {raw: "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", status: 503},
		"interim":           {raw: interim + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, keepAlive: true},
		"old, persistent":   {raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", status: 200, keepAlive: true},
		"old":               {raw: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200},
		"until close":       {raw: "HTTP/1.1 200 OK\r\n\r\nwhatever", status: 200, closed: true},
		"chunked":           {raw: chunked + "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", status: 200, keepAlive: true},
		"chunk extension":   {raw: chunked + "1;a=b0f\r\nx\r\n0;last\r\n\r\n", status: 200, keepAlive: true},
		"trailer":           {raw: chunked + "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", status: 200, keepAlive: true},
		"chunked, and line": {raw: chunked + "2\r\n\r\n\r\n0\r\n\r\n", status: 200, keepAlive: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for piece := 1; piece <= len(test.raw); piece++ {
				got, err := scanAll(test.raw, piece, test.closed)
				if err != nil || got.stage != stageDone || got.status != test.status || got.keepAlive != test.keepAlive {
					t.Fatalf("in pieces of %d: %+v, %v; want status %d, keep-alive %t", piece, got, err, test.status, test.keepAlive)
				}
			}
		})
	}
}

func TestResponseRefused(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		raw  string
		want error
	}{
		"not HTTP":            {"SSH-2.0-OpenSSH_9.2\r\n\r\n", errMalformed},
		"status of two":       {"HTTP/1.1 20 OK\r\n\r\n", errMalformed},
		"status with letter":  {"HTTP/1.1 2x0 OK\r\n\r\n", errMalformed},
		"length twice":        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", errMalformed},
		"negative length":     {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errMalformed},
		"length of letters":   {"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", errMalformed},
		"huge length":         {"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", errMalformed},
		"other coding":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", errMalformed},
		"field without colon": {"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", errMalformed},
		"chunk without size":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", errMalformed},
		"chunk of words":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", errMalformed},
		"chunk too big":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n", errMalformed},
		"chunk overrun":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n", errMalformed},
		"more than one":       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n", errMalformed},
		"endless header":      {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeader/6), errMalformed},
		"cut in the header":   {"HTTP/1.1 200 OK\r\nContent-", errCut},
		"cut in the body":     {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", errCut},
		"cut in a chunk":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", errCut},
		"cut before the last": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", errCut},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, piece := range []int{1, 7, len(test.raw)} {
				if _, err := scanAll(test.raw, piece, true); !errors.Is(err, test.want) {
					t.Fatalf("in pieces of %d: error %v, want %v", piece, err, test.want)
				}
			}
		})
	}
}

func BenchmarkResponse(b *testing.B) {
	raw := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: 0191f8d0-7e3c-7c4e-9f57-0b3f4c1f5a11\r\n" +
		"Date: Sat, 21 Nov 2026 07:00:00 GMT\r\nContent-Length: 38\r\n\r\n{\"itemId\":\"bench-01234\",\"value\":12345}")

	var r response

	for b.Loop() {
		r.reset()

		if n, err := r.feed(raw); err != nil || n != len(raw) {
			b.Fatal(n, err)
		}
	}
}
