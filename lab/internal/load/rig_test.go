package load

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

func requests(paths ...string) [][]byte {
	all := make([][]byte, 0, len(paths))
	for _, path := range paths {
		all = append(all, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", path))
	}

	return all
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	return server.Listener.Addr().String()
}

// serveRaw answers each connection with a function of its own, for what net/http would not do.
func serveRaw(t *testing.T, answer func(number int, connection net.Conn) error) string {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	var accepting, answering sync.WaitGroup
	accepting.Go(func() {
		for number := 0; ; number++ {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			answering.Go(func() {
				_ = answer(number, connection) // ends when the client leaves
				_ = connection.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()

		accepting.Wait()
		answering.Wait()
	})

	return listener.Addr().String()
}

// readRequest takes one request without a body off the connection.
func readRequest(connection net.Conn) error {
	var got []byte
	for !strings.HasSuffix(string(got), "\r\n\r\n") {
		one := make([]byte, 1)
		if _, err := io.ReadFull(connection, one); err != nil {
			return fmt.Errorf("read: %w", err)
		}

		got = append(got, one...)
	}

	return nil
}

// oneByOne sends n requests over one connection.
func oneByOne(t *testing.T, target string, n int) (*Result, error) {
	t.Helper()

	return Run(t.Context(), Config{
		Targets: []string{target}, Next: Each(slices.Repeat(requests("/"), n)), Connections: 1,
	})
}
