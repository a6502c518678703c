package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/codes"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// What arrives on the connection itself: all of it over real TCP.

// What net/http refuses it answers itself, in plain text.
func TestRefusedByNetHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/", answer)
	addr := f.start(t)
	const head, tail = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: ", "\r\n\r\n"
	long := func(size int) string { return head + strings.Repeat("x", size-len(head+tail)) + tail }
	for request, want := range map[string]int{
		long(32 << 10): 200, long(32<<10 + 1): 431, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n": 400,
	} {
		if a := exchangeRaw(t, addr, request); a.status != want || a.closed != true {
			t.Errorf("%.40q: %+v, want %d", request, a, want)
		}
	}
}

// An answer that net/http does not keep until its end has a Content-Length all the same.
func TestLengthOfLongAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/", func(c echo.Context) error { return c.JSON(http.StatusOK, strings.Repeat("x", 5000)) })
	addr := f.start(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := newClient(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.ContentLength != int64(len(`""`)+5000+len("\n")) {
			t.Errorf("%s: Content-Length %d", method, resp.ContentLength)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A connection whose header does not arrive is closed after 5 s.
func TestSlowHeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	c := dial(t, f.start(t))
	start := time.Now()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v", err)
	}
	if took := time.Since(start); took < 4*time.Second {
		t.Errorf("closed after %v", took)
	}
}

func TestBodyWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequestTimeout: 100 * time.Millisecond}) // the body: 5 s more
	f.handle(http.MethodPost, "/", func(c echo.Context) error { return c.Bind(&struct{}{}) })
	start := time.Now()
	a := exchangeRaw(t, f.start(t), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"text\":")
	if took := time.Since(start); a.status != http.StatusBadRequest || !strings.Contains(a.body, "INVALID_JSON") ||
		took > 7*time.Second {
		t.Errorf("%+v after %v", a, took)
	}
	waittest.Eventually(t, "no request in flight", func() bool { return len(f.admission.permits) == 0 })
}

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	f, spans := tracedFixture(t)
	entered := make(chan struct{})
	f.handle(http.MethodPost, "/", func(c echo.Context) error {
		close(entered)
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	c := dial(t, f.start(t))
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the request ends with its client", func() bool { return len(f.log.lines(t, "request")) == 1 })
	line := f.log.lines(t, "request")[0]
	if line["client_left"] != true || line["level"] != "INFO" || line["code"] != "OUTCOME_UNKNOWN" {
		t.Errorf("log: %v", line)
	}
	waittest.Eventually(t, "its span ends", func() bool { return len(spans.Ended()) == 1 })
	span := spans.Ended()[0]
	if all := fmt.Sprint(span.Attributes()); span.Status().Code != codes.Unset ||
		!strings.Contains(all,
			"client_left") || !strings.Contains(all, "OUTCOME_UNKNOWN") || strings.Contains(all, "error.type") {
		t.Errorf("the span of a client that left: %v %s", span.Status(), all)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{ShutdownDelay: 300 * time.Millisecond})
	entered, release := make(chan struct{}), make(chan struct{})
	f.handle(http.MethodGet, "/slow", func(c echo.Context) error {
		close(entered)
		<-release
		return answer(c)
	})
	f.handle(http.MethodGet, "/fast", answer)
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
	waittest.Eventually(t, "draining", f.draining.Load)
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
	f.handle(http.MethodGet, "/", func(c echo.Context) error {
		close(entered)
		<-c.Request().Context().Done()
		close(left)
		return c.Request().Context().Err()
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
	if err := f.Serve(); f.Name() != "internal" || f.Addr() != nil || err == nil {
		t.Errorf("before Listen: %q at %v; Serve: %v", f.Name(), f.Addr(), err)
	}
	addr := f.start(t)
	if line := f.log.lines(t, "listening")[0]; line["server"] != "internal" || line["addr"] != addr {
		t.Errorf("log: %v", line)
	}
	if err := newFixture(t, Config{Addr: addr}).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("an address in use: %v", err)
	}
	// A listener that was bound and never served gives its address back.
	g := newFixture(t, Config{})
	if err := errors.Join(g.Listen(t.Context()), g.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	again := newFixture(t, Config{Addr: g.Addr().String()})
	if err := errors.Join(again.Listen(t.Context()), again.Shutdown(t.Context()), again.Serve()); err != nil {
		t.Error(err)
	}
}
