package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// No transaction of the replica is open while a long body arrives.
func TestUploadHoldsNoTransaction(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := startOn(t, dsn, nil), dbtest.Dial(t, dsn)
	const n = 30_000
	arrive := make(chan struct{})
	answer := make(chan string, 1)
	go func() {
		status, body, err := r.upload(t.Context(), func(w io.Writer) {
			_, _ = io.WriteString(w, numbers(n))
			<-arrive
			_, _ = io.WriteString(w, "last\n")
		})
		answer <- fmt.Sprint(status, " ", body, err)
	}()
	waittest.Eventually(t, "more than a batch in memory has arrived", func() bool {
		return r.Metric(t, "iidy_spool_bytes") >= 3*64<<10
	})
	var open []string
	if err := db.SelectContext(t.Context(), &open, `SELECT state || ': ' || query FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
		  AND (xact_start IS NOT NULL OR backend_xid IS NOT NULL)`); err != nil || len(open) > 0 {
		t.Errorf("sessions with a transaction: %q, %v", open, err)
	}
	close(arrive)
	if got, want := <-answer, fmt.Sprintf("201 ADDED %d\n<nil>", n+1); got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	if used := r.Metric(t, "iidy_spool_bytes"); used != 0 {
		t.Errorf("%g bytes are left in the spool", used)
	}
}

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
