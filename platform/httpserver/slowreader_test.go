package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// pacedClient is a connection whose other end takes bytesPerSecond from the start, in parts of 64 KiB.
type pacedClient struct {
	httptest.ResponseRecorder

	bytesPerSecond int
	deadline       time.Time
	taken          int
}

func (c *pacedClient) SetWriteDeadline(deadline time.Time) error {
	c.deadline = deadline
	return nil
}

func (c *pacedClient) Write(p []byte) (n int, err error) {
	for len(p) > n {
		step := min(64<<10, len(p)-n)
		time.Sleep(time.Duration(step) * time.Second / time.Duration(c.bytesPerSecond))
		if time.Now().After(c.deadline) {
			return n, os.ErrDeadlineExceeded
		}
		n, c.taken = n+step, c.taken+step
	}
	return n, nil
}

// A client that reads at 64 KiB/s gets its answer, one that is slower is cut, in the first part or a later one, and
// none takes longer than the whole answer may.
func TestAnswersArePaced(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	for name, c := range map[string]struct {
		size, bytesPerSecond int
		limit                time.Duration
		cut                  bool
		took                 time.Duration
	}{
		"as slow as allowed": {1600 * kib, 64 * kib, time.Hour, false, 25 * time.Second},
		"too slow":           {1600 * kib, 63 * kib, time.Hour, true, 7 * time.Second},
		"small and slow":     {64 * kib, 10 * kib, time.Hour, false, 7 * time.Second},
		"fast, but too long": {16000 * kib, 640 * kib, 20 * time.Second, true, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				client := &pacedClient{bytesPerSecond: c.bytesPerSecond, deadline: begin.Add(c.limit)}
				w := newAnswerWriter(client, partTime, client.deadline)
				var err error
				for size := c.size; size > 0 && err == nil; size -= 32 * kib { // it is paced whatever a write's size
					_, err = w.Write(make([]byte, 32*kib))
				}
				took := time.Since(begin)
				off := (took - c.took).Abs()
				if w.cut != c.cut || errors.Is(err, os.ErrDeadlineExceeded) != c.cut || off > time.Second {
					t.Errorf("cut: %v after %s and %d KiB: %v", w.cut, took, client.taken/kib, err)
				}
			})
		})
	}
}

// A client that does not read is cut while its request has time left, over HTTP/1 and HTTP/2. It does not take what it
// has for the whole, and metrics and log tell.
func TestClientThatDoesNotReadIsCut(t *testing.T) {
	t.Parallel()
	for name, newClient := range map[string]func(*testing.T) *http.Client{
		"HTTP/1": func(t *testing.T) *http.Client { t.Helper(); return newClient(t) }, "HTTP/2": newHTTP2Client,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Config{LogRequests: logAll, RequestTimeout: time.Hour})
			f.partTime = 100 * time.Millisecond
			f.handle(http.MethodGet, "/large", func(c echo.Context) error {
				return c.Blob(http.StatusOK, "text/plain", bytes.Repeat([]byte("x"), 64<<20))
			})
			f.AllowHTTP2()
			url := "http://" + f.start(t) + "/large"
			in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := newClient(t).Do(in)
			if err != nil {
				t.Fatal(err)
			}
			waittest.Eventually(t, "the answer is cut", func() bool {
				return metric(t, f.registry, `http_server_answers_cut_total{server="api"}`) == 1
			})
			n, err := io.Copy(io.Discard, resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err == nil {
				t.Errorf("the client took %d bytes for the whole answer", n)
			}
			waittest.Eventually(t, "the request is logged", func() bool { return len(f.log.lines(t, "request")) == 1 })
			line := f.log.lines(t, "request")[0]
			if line["client_slow"] != true || line["status"] != 200.0 || line["level"] != "INFO" || line["error"] != nil {
				t.Errorf("the log says %v", line)
			}
			const name = `http_server_request_duration_seconds_count{method="GET",route="/large",server="api",status="200"}`
			wantMetric(t, f.registry, name, 1)
		})
	}
}
