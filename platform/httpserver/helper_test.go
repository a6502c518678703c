package httpserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestMain(m *testing.M) {
	// net/http sleeps for half a second over a connection that it closes on unread bytes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// logBuffer keeps the log's lines.
type logBuffer struct{ waittest.Log }

// lines are those with the message, decoded.
func (b *logBuffer) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(b.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if fields["msg"] == msg {
			found = append(found, fields)
		}
	}
	return found
}

// fixture is a server with what it was given.
type fixture struct {
	*Server

	log      *logBuffer
	registry *prometheus.Registry
}

func newFixture(t testing.TB, cfg Config, change ...func(*Deps)) *fixture {
	t.Helper()
	f := &fixture{log: new(logBuffer), registry: prometheus.NewRegistry()}
	if cfg.Name == "" {
		cfg.Name = "api"
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	deps := Deps{Log: slog.New(slog.NewJSONHandler(f.log, nil)), Registry: f.registry}
	for _, c := range change {
		c(&deps)
	}
	f.Server = New(cfg, deps)
	return f
}

// start serves on a real listener until the test ends and returns its address.
func (f *fixture) start(t testing.TB) string {
	t.Helper()
	return start(t, f.endpoint)
}

func start(t testing.TB, e *endpoint) string {
	t.Helper()
	if err := e.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}

	served := make(chan error, 1)
	go func() { served <- e.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(e.http.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return e.Addr().String()
}

// continueTimeout is the longest time that newClient's clients wait for 100 Continue.
const continueTimeout = 10 * time.Second

// newClient returns a client whose connections are closed when the test ends.
func newClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: continueTimeout}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport,
		Timeout:   30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirected")
		},
	}
}

// do answers one request without a connection.
func (f *fixture) do(t testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, reader)
	addHeaders(r, headers)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// addHeaders adds headers, given as names and values in turn.
func addHeaders(r *http.Request, headers []string) {
	for header := range slices.Chunk(headers, 2) {
		r.Header.Add(header[0], header[1])
	}
}

// wantProblem holds an answer to the whole form of a problem.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, kind problem.Kind, field string) problem.Document {
	t.Helper()
	var d problem.Document
	if got := w.Header().Get("Content-Type"); got != problem.ContentType {
		t.Fatalf("status %d, Content-Type %q, body %q; want %s", w.Code, got, w.Body, kind.Code())
	}
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	if w.Code != kind.Status() || d.Status != kind.Status() || d.Code != kind.Code() || d.Field != field {
		t.Errorf("got %d %s, want %s with field %q", w.Code, w.Body, kind.Code(), field)
	}
	if d.Detail == "" || d.TraceID == "" {
		t.Errorf("no detail or trace_id in %s", w.Body)
	}
	if kind.Status() == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		t.Errorf("%s without Retry-After", kind.Code())
	}
	return d
}

// answer writes an answer that cannot go wrong.
func answer(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"path": c.Request().URL.Path})
}

// handle registers a route.
func (f *fixture) handle(method, path string, h echo.HandlerFunc) { f.Echo().Add(method, path, h) }

// dial opens a bare connection, closed when the test ends.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// rawAnswer is what came over a connection.
type rawAnswer struct {
	status int
	major  int  // HTTP's version
	reused bool // the connection had served another request
	header http.Header
	length int64
	closed bool // it said "Connection: close"
	body   string
}

// exchangeRaw sends bytes and reads the one answer.
func exchangeRaw(t *testing.T, addr, request string) rawAnswer {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return readRaw(t, c)
}

// readRaw reads one answer, and perhaps more.
func readRaw(t *testing.T, from io.Reader) rawAnswer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return rawAnswer{resp.StatusCode, resp.ProtoMajor, false, resp.Header, resp.ContentLength, resp.Close, string(body)}
}

// send sends a request by client and reads the answer.
func send(
	t testing.TB, client *http.Client, method, url string, body io.Reader, headers ...string,
) (a rawAnswer) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { a.reused = c.Reused }})
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	addHeaders(r, headers)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}

	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Error(err)
	}
	return rawAnswer{resp.StatusCode, resp.ProtoMajor, a.reused, resp.Header, resp.ContentLength, resp.Close, string(text)}
}
