package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// newHTTP2Client speaks HTTP/2 and nothing else.
func newHTTP2Client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{MaxBody: 1 << 10})
	f.handle(http.MethodPost, "/echo", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err == nil {
			_, err = c.Response().Write(body)
		}
		return err
	})
	f.AllowHTTP2()
	url := "http://" + f.start(t) + "/echo"
	client := newHTTP2Client(t)
	post := func(client *http.Client, body io.Reader) rawAnswer {
		t.Helper()
		return send(t, client, "POST", url, body)
	}
	if a := post(client, strings.NewReader("x")); a.status != 200 || a.major != 2 {
		t.Errorf("%+v", a)
	}
	// A body that is too large ends its stream, not the connection that others share.
	for _, body := range []io.Reader{
		strings.NewReader(strings.Repeat("x", 1<<11)), io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<11))),
	} {
		if a := post(client, body); a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("a large body: %+v", a)
		}
		if a := post(client, strings.NewReader("x")); a.status != 200 || !a.reused {
			t.Errorf("after a large body: %+v", a)
		}
	}
	if a := post(newClient(t), strings.NewReader("x")); a.status != 200 || a.major != 1 {
		t.Errorf("HTTP/1 beside it: %+v", a)
	}
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
