package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Long bodies that do not arrive keep no other out, and give back their bytes when their clients leave.
func TestTricklingUploads(t *testing.T) {
	t.Parallel()
	const sockets = 70 // more than there were places
	r := start(t, map[string]string{"REQUEST_TIMEOUT": "1m", "SHUTDOWN_TIMEOUT": "61s"})
	begin := numbers(9_000)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: iidy\r\nContent-Length: %d\r\n\r\n%s", batch, 1<<20, begin)
	var conns []net.Conn
	for range sockets {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.API, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Eventually(t, "all are arriving", func() bool { return r.Metric(t, "iidy_spool_bytes") >= sockets*64<<10 })
	status, body, err := r.upload(t.Context(), func(w io.Writer) { _, _ = io.WriteString(w, begin) })
	if status != http.StatusCreated || body != "ADDED 9000\n" || err != nil {
		t.Errorf("an upload beside them: %d %q, %v", status, body, err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	waittest.Eventually(t, "the spool is empty", func() bool { return r.Metric(t, "iidy_spool_bytes") == 0 })
}
