package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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
		if a := send(t, newClient(t), method, "http://"+addr, nil); a.length != int64(len(`""`)+5000+len("\n")) {
			t.Errorf("%s: Content-Length %d", method, a.length)
		}
	}
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
		!strings.Contains(all, "client_left") || !strings.Contains(all, "OUTCOME_UNKNOWN") {
		t.Errorf("the span of a client that left: %v %s", span.Status(), all)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	f := newFixture(t, Config{ShutdownDelay: delay})
	entered, release := make(chan struct{}), make(chan struct{})
	f.handle(http.MethodGet, "/slow", func(c echo.Context) error {
		close(entered)
		<-release
		return answer(c)
	})
	f.handle(http.MethodGet, "/fast", answer)
	url, client := "http://"+f.start(t), newClient(t)
	if a := send(t, client, "GET", url+"/fast", nil); a.status != http.StatusOK || a.closed {
		t.Fatalf("before: %+v", a)
	}
	slow := make(chan rawAnswer, 1)
	go func() { slow <- send(t, client, "GET", url+"/slow", nil) }()
	<-entered

	start, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- f.Shutdown(t.Context()) }()
	waittest.Eventually(t, "draining", f.draining.Load)
	if a := send(t, client, "GET", url+"/fast", nil); a.status != http.StatusOK || !a.closed {
		t.Errorf("during the delay: %+v; it must be served, with Connection: close", a)
	}

	waittest.Eventually(t, "no connection is accepted", func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.Addr().String())
		return err != nil || c.Close() != nil
	})
	if took := time.Since(start); took < delay {
		t.Errorf("it stopped to accept after %v", took)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown left a request behind: %v", err)
	default:
	}

	close(release)
	if a := <-slow; a.status != http.StatusOK || !a.closed {
		t.Errorf("the slow answer: %+v", a)
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
	if f.Name() != "internal" || f.Addr() != nil {
		t.Errorf("before Listen: %q at %v", f.Name(), f.Addr())
	}
	addr := f.start(t)
	if line := f.log.lines(t, "listening")[0]; line["server"] != "internal" || line["addr"] != addr {
		t.Errorf("log: %v", line)
	}
	if err := newFixture(t, Config{Addr: addr}).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("an address in use: %v", err)
	}
	// A listener that is shut down before it serves gives its address back.
	g := newFixture(t, Config{})
	if err := errors.Join(g.Listen(t.Context()), g.Shutdown(t.Context()), g.Serve()); err != nil {
		t.Fatal(err)
	}
	again := newFixture(t, Config{Addr: g.Addr().String()})
	if err := errors.Join(again.Listen(t.Context()), again.Shutdown(t.Context()), again.Serve()); err != nil {
		t.Error(err)
	}
}
