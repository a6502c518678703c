package app_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// connection is a keep-alive connection to a replica.
type connection struct {
	net.Conn

	in *bufio.Reader
}

// dial connects to the replica until the test ends. The client's kernel takes little of an answer that is not read.
func (r *replica) dial(t *testing.T) connection {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T", c)
	}
	if err := errors.Join(tcp.SetReadBuffer(16<<10), c.SetDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	return connection{c, bufio.NewReader(c)}
}

// send sends a GET.
func (c connection) send(t *testing.T, path string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
}

// read reads the answer.
func (c connection) read() (status int, body string, err error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// Clients that do not read large pages are cut, and what these held of the replica's memory is free again. The next
// page is whole.
func TestPageThatIsNotRead(t *testing.T) {
	t.Parallel()
	r := start(t, map[string]string{"REQUEST_TIMEOUT": "20s", "SHUTDOWN_TIMEOUT": "30s"})
	const n = 2000 // 4 MB
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("%07d", i) + strings.Repeat("x", 1900)
	}
	r.want(t, "POST", batch, strings.Join(lines, "\n"), 201, fmt.Sprint("ADDED ", n))
	var unread []connection
	for range 3 {
		c := r.dial(t)
		c.send(t, batch+"?count=10000")
		unread = append(unread, c)
	}
	waittest.Eventually(t, "the pages hold memory", func() bool { return r.Metric(t, "iidy_large_answer_bytes") > 10<<20 })
	waittest.Eventually(t, "the clients are cut", func() bool {
		return r.Metric(t, `http_server_answers_cut_total{server="api"}`) == 3
	})
	if held := r.Metric(t, "iidy_large_answer_bytes"); held != 0 {
		t.Errorf("%g bytes are held for clients that were cut", held)
	}
	for _, c := range unread {
		if _, _, err := c.read(); err == nil {
			t.Error("a client took a part for the whole")
		}
	}
	r.want(t, http.MethodGet, batch+"?count=10000", "", 200, strings.Join(lines, " 0\n")+" 0")
}
