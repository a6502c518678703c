package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// upload sends a batch that write writes, and returns the answer's status and body.
func (r *replica) upload(ctx context.Context, write func(w io.Writer)) (status int, body string, err error) {
	reader, writer := io.Pipe()
	go func() {
		write(writer)
		_ = writer.Close()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.API+batch, reader)
	if err != nil {
		return 0, "", err
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// Uploads may take longer than REQUEST_TIMEOUT, but not pause for that long. One that pauses leaves no items.
func TestUploads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write func(w io.Writer)
		want  int
	}{
		"slow": {func(w io.Writer) {
			for i := range 25 {
				time.Sleep(80 * time.Millisecond)
				_, _ = io.WriteString(w, strings.ReplaceAll(numbers(1000), "0000", fmt.Sprintf("%02d-", i)))
			}
		}, 201},
		"stalled": {func(w io.Writer) {
			_, _ = io.WriteString(w, numbers(30_000))
			<-t.Context().Done() // when the test has the answer
		}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, map[string]string{
				"DB_LOCK_TIMEOUT": "500ms", "DB_STATEMENT_TIMEOUT": "1s", "REQUEST_TIMEOUT": "1500ms", "BULK_TIMEOUT": "1m",
			})
			status, body, err := r.upload(t.Context(), c.write)
			if status != c.want || err != nil || status == 201 && body != "ADDED 25000\n" ||
				status == 400 && !strings.HasPrefix(body, "The body arrived too slowly") {
				t.Errorf("%d %q, %v", status, body, err)
			}
			waittest.Eventually(t, "the request has ended", func() bool { return r.Metric(t, "iidy_spool_bytes") == 0 })
			if status != 201 {
				r.want(t, "GET", batch+"?count=1", "", 200, "")
			}
		})
	}
}
