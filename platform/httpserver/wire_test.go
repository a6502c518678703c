package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/rowlock/rowlock/platform/problem"
)

// What arrives on the connection itself: all of it over real TCP.

func TestHeaderTooLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/", answer)
	addr := f.start(t)
	const head, tail = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: ", "\r\n\r\n"
	for size, want := range map[int]int{32 << 10: 200, 32<<10 + 1: 431, 64 << 10: 431} {
		a := exchangeRaw(t, addr, head+strings.Repeat("x", size-len(head+tail))+tail)
		if a.status != want {
			t.Errorf("a header of %d bytes: %d", size, a.status)
		}
		if want != http.StatusOK {
			wantRawProblem(t, a, problem.HeadersTooLarge)
		}
	}
	wantMetric(t, f.registry, `http_server_request_duration_seconds_count{method="other",route="unmatched",server="api",status="431"}`, 2)
}

func wantRawProblem(t *testing.T, a rawAnswer, kind problem.Kind) {
	t.Helper()
	var d problem.Document
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	if d.Code != kind.Code() || d.Status != a.status || d.TraceID == "" || d.TraceID != a.header.Get("X-Request-ID") ||
		a.header.Get("Content-Type") != problem.ContentType || a.length != int64(len(a.body)) || !a.closed {
		t.Errorf("%+v", a)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/", answer)
	addr := f.start(t)
	for name, request := range map[string]string{
		"no HTTP":            "hello\r\n\r\n",
		"bad escape":         "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"space in the path":  "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
		"control character":  "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
		"no host":            "GET / HTTP/1.1\r\n\r\n",
		"two hosts":          "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"bad header":         "GET / HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n",
		"two lengths":        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"negative length":    "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"bad request method": "G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		a := exchangeRaw(t, addr, request)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "percent escape") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		wantRawProblem(t, a, problem.InvalidField)
	}
	// A handler's own answer is never taken for one of net/http.
	own := "HTTP/1.1 400 Bad Request\r\nDate: x" + refusalTail
	if got := refusalStatus([]byte(own)); got != 0 {
		t.Errorf("a handler's answer counts as %d", got)
	}
}

// What net/http does not do is told in the same form as what it does not understand.
func TestBeyondNetHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{LogRequests: logErrors})
	f.Handle(http.MethodPost, "/", answer)
	addr := f.start(t)
	for request, want := range map[string]problem.Kind{
		"POST / HTTP/3.0\r\nHost: x\r\n\r\n":                                           versionNotSupported,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n":                notImplemented,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n":       notImplemented,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: a miracle\r\n\r\n": expectationFailed,
		"POST / HTTP/1.0\r\nHost: x\r\nContent-Length: 1\r\nExpect: a miracle\r\n\r\n": expectationFailed,
	} {
		a := exchangeRaw(t, addr, request)
		if a.status != want.Status() {
			t.Errorf("%q: %d", request, a.status)
		}
		wantRawProblem(t, a, want)
	}
	if got := len(f.log.lines(t, "request refused")); got != 5 {
		t.Errorf("%d lines in the log", got)
	}
	own := "HTTP/1.1 417 Expectation Failed\r\nX-Request-Id: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if got := refusalStatus([]byte(own)); got != 0 {
		t.Errorf("a handler's answer counts as %d", got)
	}
}

func TestHeaderDripper(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/", answer)
	c := dial(t, f.start(t))
	start := time.Now()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection ended with %v", err)
		}
	}()
	drip := time.NewTicker(50 * time.Millisecond)
	defer drip.Stop()
	request := "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
	for {
		select {
		case <-closed:
			if took := time.Since(start); took < 4*time.Second || took > 6*time.Second {
				t.Errorf("closed after %v", took)
			}
			return
		case <-drip.C:
			next := "x"
			if request != "" {
				next, request = request[:1], request[1:]
			}
			if _, err := io.WriteString(c, next); err != nil {
				continue // closed: the other case comes
			}
		}
	}
}

func TestBodyWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequestTimeout: 100 * time.Millisecond}) // the body: 5 s more
	f.Handle(http.MethodPost, "/", func(_ http.ResponseWriter, r *http.Request) error { return DecodeJSON(r, new(everything)) })
	start := time.Now()
	a := exchangeRaw(t, f.start(t), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"text\":")
	if took := time.Since(start); a.status != http.StatusBadRequest || !strings.Contains(a.body, "INVALID_JSON") || took > 7*time.Second {
		t.Errorf("%+v after %v", a, took)
	}
	eventually(t, "no request in flight", func() bool { return f.inFlight.Load() == 0 })
}

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	f, spans := tracedFixture(t)
	entered := make(chan struct{})
	f.Handle(http.MethodPost, "/", func(_ http.ResponseWriter, r *http.Request) error {
		close(entered)
		<-r.Context().Done()
		return r.Context().Err()
	})
	c := dial(t, f.start(t))
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request ends with its client", func() bool { return len(f.log.lines(t, "request")) == 1 })
	line := f.log.lines(t, "request")[0]
	if line["client_left"] != true || line["level"] != "INFO" || line["code"] != "OUTCOME_UNKNOWN" {
		t.Errorf("log: %v", line)
	}
	eventually(t, "its span ends", func() bool { return len(spans.Ended()) == 1 })
	span := spans.Ended()[0]
	if all := fmt.Sprint(span.Attributes()); span.Status().Code != codes.Unset ||
		!strings.Contains(all, "client_left") || !strings.Contains(all, "OUTCOME_UNKNOWN") || strings.Contains(all, "error.type") {
		t.Errorf("the span of somebody who hung up: %v %s", span.Status(), all)
	}
}

// A client that reads nothing is no bug of the service.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.http.WriteTimeout = 300 * time.Millisecond
	f.Handle(http.MethodGet, "/", func(w http.ResponseWriter, _ *http.Request) error {
		return WriteJSON(w, http.StatusOK, strings.Repeat("x", 64<<20))
	})
	c := dial(t, f.start(t))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	const name = `http_server_request_duration_seconds_count{method="GET",route="/",server="api",status="200"}`
	eventually(t, "the request ends", func() bool { return metric(t, f.registry, name) == 1 })
	for _, line := range f.log.lines(t, "request") { // it may count as slow
		if line["level"] != "INFO" || line["code"] != nil || line["error"] != nil {
			t.Errorf("log: %v", line)
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{ShutdownDelay: 300 * time.Millisecond})
	entered, release := make(chan struct{}), make(chan struct{})
	f.Handle(http.MethodGet, "/slow", func(w http.ResponseWriter, r *http.Request) error {
		close(entered)
		<-release
		return answer(w, r)
	})
	f.Handle(http.MethodGet, "/fast", answer)
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.Serve() }()
	addr, client := f.Addr().String(), newClient(t)
	get := func(path string) (closes bool, err error) {
		resp, err := client.Get("http://" + addr + path) //nolint:noctx // the client has its time
		if err != nil {
			return false, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			err = errors.Join(err, errors.New(resp.Status))
		}
		return resp.Close, errors.Join(err, resp.Body.Close())
	}
	if closes, err := get("/fast"); err != nil || closes {
		t.Fatalf("before: %v, close %v", err, closes)
	}
	slow := make(chan error, 1)
	go func() {
		closes, err := get("/slow")
		if err == nil && !closes {
			err = errors.New("the slow answer leaves the connection open")
		}
		slow <- err
	}()
	<-entered

	start := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- f.Shutdown(t.Context()) }()
	eventually(t, "draining", f.draining.Load)
	if closes, err := get("/fast"); err != nil || !closes {
		t.Errorf("during the delay: %v; it must be served, with Connection: close", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("it stopped to accept after %v", took)
	}
	if _, err := get("/fast"); err == nil {
		t.Error("served after the delay")
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown left a request behind: %v", err)
	default:
	}
	close(release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestDrainCutsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{ShutdownDelay: time.Hour})
	entered, left := make(chan struct{}), make(chan struct{})
	f.Handle(http.MethodGet, "/", func(_ http.ResponseWriter, r *http.Request) error {
		close(entered)
		<-r.Context().Done()
		close(left)
		return r.Context().Err()
	})
	c := dial(t, f.start(t))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	<-left
	if got, err := io.ReadAll(c); len(got) > 0 {
		t.Errorf("an answer from a request that was cut off: %q, %v", got, err)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Name: "internal"})
	if f.Name() != "internal" || f.Addr() != nil {
		t.Errorf("before Listen: %q at %v", f.Name(), f.Addr())
	}
	if err := f.Serve(); err == nil {
		t.Error("Serve before Listen")
	}
	addr := f.start(t)
	lines := f.log.lines(t, "listening")
	if len(lines) != 1 || lines[0]["server"] != "internal" || lines[0]["addr"] != addr {
		t.Errorf("log: %v", lines)
	}
	if err := newFixture(t, Config{Addr: addr}).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("an address in use: %v", err)
	}
	// Bound and never served: Shutdown still gives the address back.
	g := newFixture(t, Config{})
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newFixture(t, Config{Addr: g.Addr().String()})
	if err := again.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.Serve(); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}
