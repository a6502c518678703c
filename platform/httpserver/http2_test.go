package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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

// TestHTTP2SettingsDuringAnswers changes the header table's size while the server writes headers. In Go before 1.26.9
// both used one HPACK encoder at the same time, which could end the process (CVE-2026-97032). Only the race detector
// sees that.
func TestHTTP2SettingsDuringAnswers(t *testing.T) {
	t.Parallel()

	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	f.AllowHTTP2()

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.start(t))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close() })

	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}

	var headers bytes.Buffer

	encoder := hpack.NewEncoder(&headers)
	encoder.SetMaxDynamicTableSize(0) // each request is the same bytes

	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}

	const requests = 200

	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write([]byte(http2.ClientPreface))
		out := http2.NewFramer(conn, nil)

		for i := range uint32(requests) {
			err = errors.Join(err,
				out.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: i % 2 * 4096}),
				out.WriteHeaders(http2.HeadersFrameParam{
					StreamID: 2*i + 1, BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true,
				}))
		}

		sent <- err
	}()

	in := http2.NewFramer(nil, conn)
	for answers := 0; answers < requests; {
		frame, err := in.ReadFrame()
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}

		switch frame.(type) {
		case *http2.HeadersFrame:
			answers++
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			t.Fatalf("after %d answers: %v", answers, frame)
		}
	}

	if err := <-sent; err != nil {
		t.Error(err)
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
		p, id := Refuse(context.WithValue(Request(c).Context(), key{}, 1), mine)
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
		line["level"] != "WARN" ||
		line["error"] == nil {
		t.Errorf("%v", line)
	}
	wantMetric(t, f.registry,
		`http_server_request_duration_seconds_count{method="POST",route="/rpc",server="api",status="503"}`, 1)
	if p, _ := Refuse(t.Context(), mine); p.Kind() != problem.Internal {
		t.Errorf("outside of a request: %v", p)
	}
}
