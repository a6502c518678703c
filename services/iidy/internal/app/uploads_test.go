package app_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/waittest"
)

// A long batch is one transaction, in either format.
func TestLongBatches(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	const n = 30_000
	lines := numbers(n)
	inJSON := `{"items":["` + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", `","`) + `"]}`
	r.want(t, "POST", batch, lines, 201, fmt.Sprint("ADDED ", n))
	r.want(t, "POST", batch+"?action=increment", lines, 200, fmt.Sprint("INCREMENTED ", n))
	a := apptest.Send(t, "POST", r.API+batch+"?action=increment", inJSON, apptest.JSON())
	if a.Status != 200 || a.Body != fmt.Sprintf(`{"incremented":%d}`+"\n", n) {
		t.Errorf("in JSON: %s", a)
	}
	// The last line is invalid, and nothing is deleted.
	a = apptest.Send(t, "DELETE", r.API+batch, lines+"\n"+strings.Repeat("x", 2000), nil)
	if a.Status != 400 || a.Header.Get("X-Error-Code") != "ITEM_TOO_LONG" || !strings.HasPrefix(a.Body, fmt.Sprintf("Line %d: ", n+2)) {
		t.Errorf("an invalid line: %s", a)
	}
	r.want(t, "GET", items, "", 200, counts(n, 2))
	r.want(t, "DELETE", batch, lines, 200, fmt.Sprint("DELETED ", n))
	if inFlight := r.Metric(t, "iidy_bulk_in_flight"); inFlight != 0 {
		t.Errorf("%g long batches are in flight", inFlight)
	}
	if got := r.Metric(t, `iidy_items_total{change="incremented"}`); got != 2*n {
		t.Errorf("the metric counts %g increments", got)
	}
}

// upload sends the beginning of a long batch that was declared to be a MiB long.
func (r *replica) upload(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", batch, 1<<20, numbers(30_000))
	if err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the upload has its transaction", func() bool { return r.Metric(t, "iidy_bulk_in_flight") > 0 })
	return c
}

// wantNothing waits for the end of the long batch, which must have left no items.
func (r *replica) wantNothing(t *testing.T) {
	t.Helper()
	waittest.Eventually(t, "the transaction has ended", func() bool { return r.Metric(t, "iidy_bulk_in_flight") == 0 })
	r.want(t, "GET", batch+"?count=1", "", 200, "")
}

// A client that closes its connection in the middle of a batch leaves nothing behind.
func TestCutUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	if err := r.upload(t).Close(); err != nil {
		t.Fatal(err)
	}
	r.wantNothing(t)
	r.want(t, "POST", batch, numbers(20_000), 201, "ADDED 20000")
}

// A client that sends nothing for REQUEST_TIMEOUT gets an error, and its transaction ends.
func TestStalledUploadIsEnded(t *testing.T) {
	t.Parallel()
	r := start(t, map[string]string{
		"DB_LOCK_TIMEOUT": "300ms", "DB_STATEMENT_TIMEOUT": "600ms", "REQUEST_TIMEOUT": "1s", "BULK_TIMEOUT": "1m",
	})
	c := r.upload(t)
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<10)
	n, err := c.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 400 ") {
		t.Errorf("a stalled upload was answered %q, %v", answer[:n], err)
	}
	r.wantNothing(t)
}

// slowBody is a body with a pause before each part.
type slowBody struct{ parts []string }

func (s *slowBody) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	time.Sleep(30 * time.Millisecond)
	n := copy(p, s.parts[0])
	if s.parts[0] = s.parts[0][n:]; s.parts[0] == "" {
		s.parts = s.parts[1:]
	}
	return n, nil
}

// An upload may take longer than REQUEST_TIMEOUT while it does not pause for that long.
func TestSlowUploadIsNotEnded(t *testing.T) {
	t.Parallel()
	r := start(t, map[string]string{
		"DB_LOCK_TIMEOUT": "200ms", "DB_STATEMENT_TIMEOUT": "400ms", "REQUEST_TIMEOUT": "500ms", "BULK_TIMEOUT": "1m",
	})
	body := new(slowBody)
	for i := range 25 {
		body.parts = append(body.parts, strings.ReplaceAll(numbers(1000), "0000", fmt.Sprintf("%02d-", i)))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.API+batch, body)
	if err != nil {
		t.Fatal(err)
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || string(text) != "ADDED 25000\n" {
		t.Errorf("%d %q %v", resp.StatusCode, text, err)
	}
}
