package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// newHTTP2Client speaks HTTP/2 and nothing else.
func newHTTP2Client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// An error that the status line does not show is in the log and the metrics.
func TestRefuse(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	f := newFixture(t, Config{LogRequests: logAll}, func(d *Deps) {
		d.Errors = []func(error) *problem.Error{func(err error) *problem.Error {
			if errors.Is(err, mine) {
				return problem.NotApplied.New("", problem.Cause(err))
			}
			return nil
		}}
	})
	f.handle(http.MethodPost, "/rpc", func(c echo.Context) error {
		type key struct{} // a protocol's library wraps the context
		p, id := Refuse(context.WithValue(c.Request().Context(), key{}, 1), mine)
		if p.Kind() != problem.NotApplied || id != c.Response().Header()["X-Request-Id"][0] {
			t.Errorf("%v, %q", p, id)
		}
		c.Response().WriteHeader(http.StatusOK)
		return nil
	})
	if w := f.do(t, "POST", "/rpc", ""); w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	if line := f.log.lines(t, "request")[0]; line["status"] != 503.0 || line["code"] != "NOT_APPLIED" ||
		line["level"] != "WARN" || line["error"] == nil {
		t.Errorf("%v", line)
	}
	wantMetric(t, f.registry,
		`http_server_request_duration_seconds_count{method="POST",route="/rpc",server="api",status="503"}`, 1)
}

// Clients that keep their connections move to new ones, and so to new replicas, and none of their requests fails.
func TestMaxConnectionAge(t *testing.T) {
	t.Parallel()
	const clients, connections = 8, 40
	for name, newClient := range map[string]func(*testing.T) *http.Client{
		"HTTP/1.1": func(t *testing.T) *http.Client { return newClient(t) }, "HTTP/2": newHTTP2Client,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Config{MaxConnectionAge: 10 * time.Millisecond})
			f.AllowHTTP2()
			f.handle(http.MethodPost, "/a", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			var opened atomic.Int64
			f.http.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			url, client := "http://"+f.start(t)+"/a", newClient(t)

			waittest.Together(t, clients, func(int) error {
				for begin := time.Now(); opened.Load() < connections; {
					if time.Since(begin) > 20*time.Second {
						return fmt.Errorf("only %d connections were opened", opened.Load())
					}
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
					if err != nil {
						return err
					}
					resp, err := client.Do(r)
					if err != nil {
						return err
					}
					if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusNoContent {
						return fmt.Errorf("status %d (%w)", resp.StatusCode, err)
					}
				}
				return nil
			})
		})
	}
}
