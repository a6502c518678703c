package httpserver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// echoBody answers the request's body.
func echoBody(c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return BodyError(err)
	}
	if declared := c.Request().ContentLength; declared != int64(len(body)) && (declared >= 0 || len(body) <= readAhead) {
		return fmt.Errorf("%d bytes, of which the handler was told %d", len(body), declared)
	}
	return c.Blob(http.StatusOK, "text/plain", body)
}

// newReceiver serves POST / by echoBody.
func newReceiver(t *testing.T, cfg Config) (f *fixture, addr string) {
	t.Helper()
	f = newFixture(t, cfg)
	f.handle(http.MethodPost, "/", echoBody)
	f.AllowHTTP2()
	addr = f.start(t)
	return f, addr
}

// awaited returns how many bodies the server awaits, and the bytes of those without a permit.
func (f *fixture) awaited() (n, bytes int) {
	f.arrivals.mu.Lock()
	defer f.arrivals.mu.Unlock()
	return f.arrivals.awaited.Len(), f.arrivals.bytes
}

// begin sends the header of a request, and a part of its body.
func begin(t *testing.T, addr, part string) net.Conn {
	t.Helper()
	c := dial(t, addr)
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n%s", part); err != nil {
		t.Fatal(err)
	}
	return c
}

// Many more clients that do not send their bodies than the server awaits or works on do not keep out one that does.
func TestBodiesThatDoNotArrive(t *testing.T) {
	t.Parallel()
	const limit, most, attackers, others = 4, 4 * arrivingPerPermit, 10 * 4 * arrivingPerPermit, 200
	for name, test := range map[string]struct {
		client *http.Client
		begin  func(client *http.Client, addr string) (status func() int)
	}{
		"HTTP/1": {newClient(t), func(_ *http.Client, addr string) func() int {
			c := begin(t, addr, "h")
			return func() int { return readRaw(t, c).status }
		}},
		"HTTP/2": {newHTTP2Client(t), func(client *http.Client, addr string) func() int {
			return beginStream(t, client, addr)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, addr := newReceiver(t, Config{MaxInFlight: limit})
			statuses := map[int]int{}
			var answers []func() int
			for range attackers {
				answers = append(answers, test.begin(test.client, addr))
			}
			for range others {
				a := send(t, test.client, "POST", "http://"+addr, strings.NewReader("hello"))
				if a.status != 200 || a.body != "hello" {
					t.Fatalf("another client: %+v", a)
				}
			}
			if n, _ := f.awaited(); n > most {
				t.Errorf("%d bodies are awaited, want %d at most", n, most)
			}
			for _, status := range answers {
				statuses[status()]++
			}
			if statuses[503] < attackers-most || statuses[503]+statuses[400] != attackers {
				t.Errorf("bodies that do not arrive are answered %v", statuses)
			}
			if n, bytes := f.awaited(); n != 0 || bytes != 0 {
				t.Errorf("%d bodies are awaited, with %d bytes", n, bytes)
			}
		})
	}
}

// beginStream sends a request with one byte of its body, and returns a function that waits for the answer's status.
func beginStream(t *testing.T, client *http.Client, addr string) (status func() int) {
	t.Helper()
	body, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	answered := make(chan int, 1)
	go func() { answered <- send(t, client, "POST", "http://"+addr, body).status }()
	if _, err := io.WriteString(w, "h"); err != nil {
		t.Fatal(err)
	}
	return func() int { return <-answered }
}

// noted is a connection that notes when its read is ended.
type noted struct {
	http.ResponseWriter

	ended time.Time
}

// SetReadDeadline implements what http.ResponseController looks for.
func (c *noted) SetReadDeadline(time.Time) error {
	c.ended = time.Now()
	return nil
}

// The body that was awaited longest is cut, for their number and for their bytes.
func TestOldestBodyIsCut(t *testing.T) {
	t.Parallel()
	const most, size = 3, 20 << 10
	for name, all := range map[string]*arrivals{
		"number": {mostAwaited: most, mostBytes: arrivedBytes}, "bytes": {mostAwaited: 100, mostBytes: most * size},
	} {
		var bodies []*arrival
		for i := range 3 * most {
			a := &arrival{all: all, writer: new(noted), start: time.Now()}
			a.await()
			if err := a.reserve(size); err != nil {
				t.Fatalf("%s: the newest body was cut: %v", name, err)
			}

			bodies = append(bodies, a)
			for j, a := range bodies {
				if cut := a.err != nil; cut != (j <= i-most) {
					t.Errorf("%s: of %d bodies number %d was cut: %t", name, i+1, j, cut)
				}
			}
		}

		for i, a := range bodies {
			conn, _ := a.writer.(*noted)
			if err := a.end(); errors.Is(err, errCut) != (i < 2*most) || conn.ended.IsZero() != (err == nil) {
				t.Errorf("%s: body %d ended with %v, its connection at %s", name, i, err, conn.ended)
			}
			a.release()
		}
		if all.awaited.Len() != 0 || all.bytes != 0 {
			t.Errorf("%s: %d bodies are awaited, with %d bytes", name, all.awaited.Len(), all.bytes)
		}
	}
}

// What follows the answer to a body that was cut is not read as a request.
func TestCutBodyEndsItsConnection(t *testing.T) {
	t.Parallel()
	f, addr := newReceiver(t, Config{})
	f.arrivals.mostAwaited = 0
	c := begin(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nh")
	all, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(all), "HTTP/1.1 503 ") {
		t.Errorf("the connection got %q", all)
	}
}

// A body of any length arrives as it was sent, and its connection serves the next request. Over HTTP/2 it does so after
// a body that is too large, too: only the stream of that one ends.
func TestBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	_, addr := newReceiver(t, Config{MaxBody: most})
	for _, client := range []*http.Client{newClient(t), newHTTP2Client(t)} {
		for _, size := range []int{
			0, 1, smallestRead - 1, smallestRead, smallestRead + 1, largestRead - 1, largestRead, largestRead + 1,
			readAhead - 1, readAhead, readAhead + 1, readAhead + 2, 300 << 10,
		} {
			text := strings.Repeat("0123456789", size/10+1)[:size]
			for _, body := range []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))} {
				if a := send(t, client, "POST", "http://"+addr, body); a.status != 200 || a.body != text {
					t.Errorf("%d bytes over HTTP/%d: %d with %d bytes", size, a.major, a.status, len(a.body))
				}
			}
		}
		if a := send(t, client, "POST", "http://"+addr, strings.NewReader("x")); !a.reused {
			t.Errorf("HTTP/%d: the connection was closed", a.major)
		}

		text := strings.Repeat("x", most+1)
		for _, body := range []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))} {
			if a := send(t, client, "POST", "http://"+addr, body); a.status != http.StatusRequestEntityTooLarge {
				t.Errorf("a large body over HTTP/%d: %d, want 413", a.major, a.status)
			}
			a := send(t, client, "POST", "http://"+addr, strings.NewReader("x"))
			if a.status != http.StatusOK || a.reused != (a.major == 2) {
				t.Errorf("after a large body over HTTP/%d: %d, reused %t", a.major, a.status, a.reused)
			}
		}
	}
}

// Streams, long bodies and extended requests hold a share of the permits: their clients may stop to send.
func TestOpenBodiesLeavePermits(t *testing.T) {
	t.Parallel()
	const limit = 8
	f, addr := newReceiver(t, Config{MaxInFlight: limit, MaxBody: 1 << 20})
	entered := make(chan struct{}, limit)
	f.handle(http.MethodPost, "/stream", func(c echo.Context) error {
		entered <- struct{}{}
		return echoBody(c)
	})
	f.Stream("/stream")
	f.handle(http.MethodPost, "/extended", reading(Allowance{Timeout: time.Minute}))
	client, long := newClient(t), firstPart()+"x"
	want := func(status int, path, body string) {
		t.Helper()
		if a := send(t, client, "POST", "http://"+addr+path, strings.NewReader(body)); a.status != status {
			t.Errorf("%d bytes to %s: %d, want %d", len(body), path, a.status, status)
		}
	}

	var conns []net.Conn
	for range limit / lastingShare {
		c := dial(t, addr)
		conns = append(conns, c)
		if _, err := io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nh"); err != nil {
			t.Fatal(err)
		}
		<-entered // although its body has not ended
	}
	want(http.StatusServiceUnavailable, "/", long)
	want(http.StatusServiceUnavailable, "/extended", "")
	want(http.StatusServiceUnavailable, "/extended", "short")
	want(http.StatusOK, "/", "short")

	for _, c := range conns {
		if _, err := io.WriteString(c, "i"); err != nil {
			t.Fatal(err)
		}
		if a := readRaw(t, c); a.body != "hi" {
			t.Errorf("a stream: %+v", a)
		}
	}
	want(http.StatusOK, "/", long)
	for range 2 * limit { // each gives its permit back, whether its body was long or not
		want(http.StatusOK, "/extended", "")
		want(http.StatusOK, "/extended", long)
	}
	if _, bytes := f.awaited(); bytes != 0 || len(f.admission.lasting) != 0 {
		t.Errorf("%d bytes and %d long requests are held", bytes, len(f.admission.lasting))
	}
}

func TestMaxLasting(t *testing.T) {
	t.Parallel()
	for cfg, want := range map[[2]int]int{
		{8, 0}: 2, {8, 1}: 1, {8, 2}: 2, {8, 3}: 2, {1, 0}: 1, {0, 0}: 256, {0, 64}: 64,
	} {
		f := newFixture(t, Config{MaxInFlight: cfg[0], MaxLasting: cfg[1]})
		if got := cap(f.admission.lasting); got != want {
			t.Errorf("%d of %d: %d may last, want %d", cfg[1], cfg[0], got, want)
		}
	}
}

// paced is a body of which minRate bytes come at a time.
type paced struct {
	left  int64
	pause time.Duration
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(p.pause)
	n := int(min(p.left, minRate, int64(len(b))))
	p.left -= int64(n)
	return n, nil
}

// A long body that comes slowly, but steadily, is let on before its first part is whole; others have bodyTime.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts   int64
		pause   time.Duration
		status  int
		entered time.Duration
	}{
		"long and steady": {100, 900 * time.Millisecond, 200, 2700 * time.Millisecond},
		"long":            {100, 1100 * time.Millisecond, 400, 0},
		"short":           {10, 900 * time.Millisecond, 400, 0},
		"in time":         {10, 400 * time.Millisecond, 200, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{MaxBody: 1 << 20})
				start := time.Now()
				var entered time.Duration
				f.handle(http.MethodPost, "/", func(c echo.Context) error {
					entered = time.Since(start)
					return echoBody(c)
				})
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/", &paced{c.parts * minRate, c.pause})
				r.ContentLength = c.parts * minRate
				w := httptest.NewRecorder()
				f.ServeHTTP(w, r)
				if w.Code != c.status || entered != c.entered || w.Code == 200 && int64(w.Body.Len()) != r.ContentLength {
					t.Errorf("%d with %d bytes; the handler began after %s", w.Code, w.Body.Len(), entered)
				}
			})
		})
	}
}

// An answer that comes before the body arrives at a client that reads nothing before it has sent everything.
func TestEarlyAnswersArrive(t *testing.T) {
	t.Parallel()
	const size = 12 << 20 // more than the sockets hold
	i := authtest.New(t)
	f := newFixture(t, Config{MaxBody: 2 * size}, guarded(t, i))
	f.handle(http.MethodPost, "/", func(c echo.Context) error {
		_, err := io.CopyN(io.Discard, c.Request().Body, 100<<10)
		return cmp.Or(err, error(problem.InvalidField.New("Line 7 is not valid.")))
	})
	full := newFixture(t, Config{MaxBody: 2 * size, MaxInFlight: 1})
	full.handle(http.MethodPost, "/", answer)
	full.admission.permits <- struct{}{}
	small := newFixture(t, Config{MaxBody: size - 1})
	small.handle(http.MethodPost, "/", echoBody)

	main, busy, narrow := f.start(t), full.start(t), small.start(t)
	body := strings.Repeat("x", size)
	framings := map[string][2]string{ // what comes before and after the body
		"a length": {"Content-Length: " + strconv.Itoa(size) + "\r\n\r\n", ""},
		"chunked":  {"Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(size, 16) + "\r\n", "\r\n0\r\n\r\n"},
	}
	writer := "Authorization: Bearer " + i.Token("writer") + "\r\n"
	for name, test := range map[string]struct {
		addr    string
		request string
		want    int
	}{
		"no token":         {main, "POST / HTTP/1.1\r\n", 401},
		"no right":         {main, "POST / HTTP/1.1\r\nAuthorization: Bearer " + i.Token("reader") + "\r\n", 403},
		"no route":         {main, "POST /nothing HTTP/1.1\r\n" + writer, 404},
		"no such method":   {main, "PUT / HTTP/1.1\r\n" + writer, 405},
		"other site":       {main, "POST / HTTP/1.1\r\nOrigin: http://y\r\n" + writer, 403},
		"other method":     {main, "POST / HTTP/1.1\r\nX-Http-Method: PUT\r\n" + writer, 400},
		"a bad line":       {main, "POST / HTTP/1.1\r\n" + writer, 400},
		"no permit":        {busy, "POST / HTTP/1.1\r\n", 503},
		"too large a body": {narrow, "POST / HTTP/1.1\r\n", 413},
	} {
		for framing, around := range framings {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				c := dial(t, test.addr)
				for _, part := range []string{test.request + "Host: x\r\n" + around[0], body, around[1]} {
					if _, err := io.WriteString(c, part); err != nil {
						t.Fatal(err)
					}
				}
				if a := readRaw(t, c); a.status != test.want || !a.closed {
					t.Errorf("got %+v, want %d and a closed connection", a, test.want)
				}
			})
		}
	}
}

// Clients that send on for ever after their answers hold no more places than others, and give them up to the next.
func TestRestIsReadWithinBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	addr := f.start(t)
	f.rests.mostAwaited = 1
	awaited := func() int {
		f.rests.mu.Lock()
		defer f.rests.mu.Unlock()
		return f.rests.awaited.Len()
	}
	header := "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"
	first, second := dial(t, addr), dial(t, addr)
	for _, c := range []net.Conn{first, second} {
		if _, err := io.WriteString(c, header); err != nil {
			t.Fatal(err)
		}
		if a := readRaw(t, c); a.status != http.StatusNotFound {
			t.Fatalf("got %+v", a)
		}
		// The answer comes before the wait for the rest.
		waittest.Eventually(t, "a rest is awaited", func() bool { return awaited() == 1 })
	}

	if n, err := io.Copy(io.Discard, first); n != 0 || err != nil {
		t.Errorf("after the answer came %d bytes, %v", n, err)
	}
	if n := awaited(); n != 1 {
		t.Errorf("when the first connection has ended, %d rests are awaited, want that of the second", n)
	}
}
