package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/problem"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	for name, c := range map[string]struct {
		cfg  Config
		deps Deps
	}{
		"no name":         {Config{}, Deps{Log: log, Registry: reg}},
		"negative limit":  {Config{Name: "a", MaxBody: -1}, Deps{Log: log, Registry: reg}},
		"unknown logging": {Config{Name: "a", LogRequests: "some"}, Deps{Log: log, Registry: reg}},
		"no log":          {Config{Name: "a"}, Deps{Registry: reg}},
		"no registry":     {Config{Name: "a"}, Deps{Log: log}},
		"no contract":     {Config{Name: "b", Docs: Docs{OpenAPI: []byte("a: [")}}, Deps{Log: log, Registry: prometheus.NewRegistry()}},
	} {
		if _, err := New(c.cfg, c.deps); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for range 2 { // two servers of one name cannot share a registry
		_, err := New(Config{Name: "a"}, Deps{Log: log, Registry: reg})
		if twice := err != nil; twice {
			return
		}
	}
	t.Error("two servers of the same name share a registry")
}

func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/a/{id}", answer)
	for name, c := range map[string]struct {
		method, pattern string
		h               Handler
	}{
		"no slash":           {"GET", "a", answer},
		"echo's parameter":   {"GET", "/:id", answer},
		"wildcard":           {"GET", "/*", answer},
		"part of a segment":  {"GET", "/x{id}", answer},
		"no name":            {"GET", "/{}", answer},
		"name twice":         {"GET", "/{id}/{id}", answer},
		"five":               {"GET", "/{a}/{b}/{c}/{d}/{e}", answer},
		"no handler":         {"GET", "/n", nil},
		"unknown method":     {"BREW", "/b", answer},
		"CONNECT":            {"CONNECT", "/c", answer},
		"lower case":         {"get", "/l", answer},
		"there already":      {"GET", "/a/{id}", answer},
		"under another name": {"GET", "/a/{other}", answer},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f.Handle(c.method, c.pattern, c.h)
		}()
	}
}

// What a client puts into one path segment is what the handler gets.
func TestPathRoundTrip(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	echoID := func(w http.ResponseWriter, r *http.Request) error {
		id, err := PathParam(r, "itemId")
		if err != nil {
			return err
		}
		return WriteJSON(w, http.StatusOK, id)
	}
	f.Handle(http.MethodPost, "/counts/{itemId}/increase", echoID)
	f.Handle(http.MethodGet, "/counts/{itemId}", echoID)
	f.Handle(http.MethodGet, "/counts", answer)
	addr := f.start(t)
	for _, c := range []struct{ sent, want string }{
		{"plain", "plain"},
		{"a%2Fb", "a/b"},
		{"a%2fb", "a/b"},
		{"%2F", "/"},
		{"%2F%2F", "//"},
		{"%252F", "%2F"},
		{"100%25", "100%"},
		{"%25", "%"},
		{"%25%32%35", "%25"},
		{"a+b", "a+b"},
		{"a%2Bb", "a+b"},
		{"a%20b", "a b"},
		{"..", ".."},
		{"%2e%2e", ".."},
		{".", "."},
		{"%2E", "."},
		{"...", "..."},
		{"a;b", "a;b"},
		{";", ";"},
		{"a%3Bb", "a;b"},
		{"a=b&c", "a=b&c"},
		{"a,b", "a,b"},
		{"a:b", "a:b"},
		{":itemId", ":itemId"},
		{"*", "*"},
		{"%3F", "?"},
		{"%23", "#"},
		{"a%22b", `a"b`},
		{"<b>", "<b>"},
		{"%5C", `\`},
		{`\`, `\`},
		{"{itemId}", "{itemId}"},
		{"~!$'()@", "~!$'()@"},
		{"%F0%9F%98%80", "😀"},
		{"😀", "😀"},
		{"%e2%80%8f", "\u200f"},
		{"e%CC%81", "e\u0301"},
		{"%C3%A9", "é"},
		{"%0A", "\n"},
		{"%7F", "\x7f"},
		{"increase", "increase"},
		{strings.Repeat("x", 2000), strings.Repeat("x", 2000)},
	} {
		for _, target := range []string{"GET /counts/%s", "POST /counts/%s/increase", "GET http://else/counts/%s?x=/a/b"} {
			line := fmt.Sprintf(target, c.sent)
			a := exchangeRaw(t, addr, line+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			var got string
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK || got != c.want {
				t.Errorf("%s: %d %s, want %q", line, a.status, a.body, c.want)
			}
		}
	}
	for sent, want := range map[string]string{
		"/counts/%ff": "INVALID_FIELD", "/counts/%00": "INVALID_FIELD", "/counts/%ed%a0%80": "INVALID_FIELD", "/counts/\xff": "INVALID_FIELD",
		"/counts/%zz": "INVALID_FIELD", "/counts/%": "INVALID_FIELD", // refused by net/http, in our form
		"/counts/": "NOT_FOUND", "/counts//": "NOT_FOUND", "/counts/a/b": "NOT_FOUND", "/counts/a/": "NOT_FOUND", "//counts/a": "NOT_FOUND",
		"/counts/../counts/a": "NOT_FOUND", "/": "NOT_FOUND", "/count": "NOT_FOUND", "/counts/a%2Fincrease/": "NOT_FOUND",
		"/%63ounts/a": "NOT_FOUND", "/counts/a/increase": "METHOD_NOT_ALLOWED", "/counts/a/b/increase": "NOT_FOUND",
	} {
		a := exchangeRaw(t, addr, "GET "+sent+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		var d problem.Document
		if err := json.Unmarshal([]byte(a.body), &d); err != nil || d.Code != want || a.status != d.Status {
			t.Errorf("%s: %d %s, want %s", sent, a.status, a.body, want)
		}
	}
}

func TestPathParamIsNotThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/{a}", func(_ http.ResponseWriter, r *http.Request) error {
		_, err := PathParam(r, "b")
		return err
	})
	wantProblem(t, f.do(t, "GET", "/x", ""), problem.Internal, "")
	if _, err := PathParam(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil), "a"); err == nil {
		t.Error("a parameter without a route")
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/things/{id}", answer)
	f.Handle(http.MethodDelete, "/things/{name}", answer)
	f.Handle(http.MethodPost, "/things", answer)
	f.Handle(http.MethodGet, "/own", answer)
	f.Handle(http.MethodHead, "/own", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("X-Own", "yes")
		return nil
	})
	w := f.do(t, "PUT", "/things/1", "")
	wantProblem(t, w, problem.MethodNotAllowed, "")
	if got := w.Header().Get("Allow"); got != "DELETE, GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %q", got)
	}
	wantProblem(t, f.do(t, "BREW", "/things", ""), problem.MethodNotAllowed, "")
	wantProblem(t, f.do(t, "PUT", "/things/1/2", ""), problem.NotFound, "")
	wantProblem(t, f.do(t, "GET", "/things/1/2", ""), problem.NotFound, "")
	wantProblem(t, f.do(t, "GET", "/nothing", ""), problem.NotFound, "")
	w = f.do(t, "OPTIONS", "/things", "")
	if w.Code != http.StatusNoContent || w.Header().Get("Allow") != "OPTIONS, POST" {
		t.Errorf("OPTIONS: %d %v", w.Code, w.Header())
	}
	if w = f.do(t, "HEAD", "/own", ""); w.Header().Get("X-Own") != "yes" {
		t.Errorf("HEAD of its own: %v", w.Header())
	}

	addr := f.start(t)
	resp, err := newClient(t).Head("http://" + addr + "/things/1") //nolint:noctx // the client has its time
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || len(body) != 0 || resp.ContentLength != int64(len(`{"path":"/things/1"}`)+1) {
		t.Errorf("HEAD: %d, %q, length %d", resp.StatusCode, body, resp.ContentLength)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/", answer)
	const own = "6ba7b810-9dad-11d1-80b4-00C04FD430C8"
	if got := f.do(t, "GET", "/", "", "X-Request-Id", own).Header()[headerRequestID]; len(got) != 1 || got[0] != own {
		t.Errorf("a UUID came back as %q", got)
	}
	seen := map[string]bool{}
	for _, sent := range []string{
		"", "1", "' OR 1=1", strings.Repeat("4", 36), "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
		"urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b8109dad11d180b400c04fd430c8",
	} {
		got := f.do(t, "GET", "/", "", "X-Request-Id", sent).Header().Get("X-Request-ID")
		id, err := uuid.Parse(got)
		if err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 || seen[got] || got == sent {
			t.Errorf("%q: got %q", sent, got)
		}
		seen[got] = true
	}
	d := wantProblem(t, f.do(t, "GET", "/none", "", "X-Request-Id", own), problem.NotFound, "")
	if d.TraceID != own {
		t.Errorf("trace_id %q, want the request's id", d.TraceID)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	domain := errors.New("no such thing")
	missing := problem.Define("THING_NOT_FOUND", http.StatusNotFound, "")
	f := newFixture(t, Config{}, func(d *Deps) {
		d.Errors = []func(error) *problem.Error{
			func(error) *problem.Error { return nil },
			func(err error) *problem.Error {
				if errors.Is(err, domain) {
					return missing.New("There is no such thing.", problem.Field("id"), problem.Cause(err))
				}
				return nil
			},
		}
	})
	for path, err := range map[string]error{
		"/problem":  problem.DatabaseUnavailable.New("Away."),
		"/wrapped":  fmt.Errorf("outer: %w", problem.NotApplied.New("Not.")),
		"/domain":   fmt.Errorf("outer: %w", domain),
		"/bug":      errors.New("the secret text of a driver"),
		"/deadline": fmt.Errorf("query: %w", context.DeadlineExceeded),
		"/canceled": context.Canceled,
	} {
		fail := func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", "/nowhere")
			return err
		}
		f.Handle(http.MethodGet, path, fail)
		f.Handle(http.MethodPost, path, fail)
	}
	for _, method := range []string{"GET", "POST"} {
		outcome := problem.NotApplied
		if method == "POST" {
			outcome = problem.OutcomeUnknown
		}
		wantProblem(t, f.do(t, method, "/problem", ""), problem.DatabaseUnavailable, "")
		wantProblem(t, f.do(t, method, "/wrapped", ""), problem.NotApplied, "")
		wantProblem(t, f.do(t, method, "/domain", ""), missing, "id")
		wantProblem(t, f.do(t, method, "/deadline", ""), outcome, "")
		wantProblem(t, f.do(t, method, "/canceled", ""), outcome, "")
		w := f.do(t, method, "/bug", "")
		d := wantProblem(t, w, problem.Internal, "")
		if strings.Contains(w.Body.String(), "secret") || w.Header().Get("Location") != "" {
			t.Errorf("the answer gives away too much: %v %s", w.Header(), w.Body)
		}
		lines := 0
		for _, line := range f.log.lines(t, "request") {
			if line["request_id"] == d.TraceID {
				lines++
				if line["level"] != "ERROR" || !strings.Contains(fmt.Sprint(line["error"]), "secret text") || line["code"] != "INTERNAL" {
					t.Errorf("the bug's line: %v", line)
				}
			}
		}
		if lines != 1 {
			t.Errorf("the bug was logged %d times", lines)
		}
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{LogRequests: "none"})
	f.Handle(http.MethodGet, "/panic", func(_ http.ResponseWriter, r *http.Request) error {
		return errors.New([]string{}[len(r.URL.Path)])
	})
	f.Handle(http.MethodGet, "/late", func(w http.ResponseWriter, _ *http.Request) error {
		if _, err := io.WriteString(w, strings.Repeat("x", 5000)); err != nil {
			return err
		}
		panic("late")
	})
	f.Handle(http.MethodGet, "/error", func(w http.ResponseWriter, _ *http.Request) error {
		if err := WriteJSON(w, http.StatusOK, "the beginning"); err != nil {
			return err
		}
		return errors.New("the rest cannot be read")
	})
	f.Handle(http.MethodGet, "/fine", answer)
	wantProblem(t, f.do(t, "GET", "/panic", ""), problem.Internal, "")
	lines := f.log.lines(t, "request")
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["stack"]), "TestPanic") ||
		!strings.Contains(fmt.Sprint(lines[0]["error"]), "out of range") {
		t.Errorf("log: %v", lines)
	}

	// An answer that broke off must not look whole, and the server goes on.
	addr, client := f.start(t), newClient(t)
	for _, path := range []string{"/late", "/error"} {
		resp, err := client.Get("http://" + addr + path) //nolint:noctx // the client has its time
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			if closeErr := resp.Body.Close(); closeErr != nil {
				t.Error(closeErr)
			}
		}
		if err == nil {
			t.Errorf("%s: the answer looks whole", path)
		}
		if w := f.do(t, "GET", "/fine", ""); w.Code != http.StatusOK {
			t.Errorf("after %s: %d", path, w.Code)
		}
	}
	if got := len(f.log.lines(t, "request")); got != 3 {
		t.Errorf("%d lines, want one for each", got)
	}
	if n := f.inFlight.Load(); n != 0 {
		t.Errorf("%d requests in flight after panics", n)
	}
}

func TestOverloaded(t *testing.T) {
	t.Parallel()
	const limit = 3
	f := newFixture(t, Config{MaxInFlight: limit})
	entered, release := make(chan struct{}), make(chan struct{})
	f.Handle(http.MethodPost, "/slow", func(w http.ResponseWriter, r *http.Request) error {
		entered <- struct{}{}
		<-release
		return answer(w, r)
	})
	answers := make(chan int, limit)
	for range limit {
		go func() { answers <- f.do(t, "POST", "/slow", "").Code }()
		<-entered
	}
	wantProblem(t, f.do(t, "POST", "/slow", ""), problem.Overloaded, "")
	if w := f.do(t, "GET", "/none", ""); w.Code != http.StatusNotFound {
		t.Errorf("a path that is not served: %d", w.Code)
	}
	wantMetric(t, f.registry, `http_server_requests_in_flight{server="api"}`, limit)
	close(release)
	for range limit {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a request within the limit: %d", code)
		}
	}
	go func() { <-entered }()
	if w := f.do(t, "POST", "/slow", ""); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{RequestTimeout: 3 * time.Second})
		f.Handle(http.MethodPost, "/", func(_ http.ResponseWriter, r *http.Request) error {
			child, cancel := context.WithCancel(r.Context()) // the handler's own contexts end too
			defer cancel()
			<-child.Done()
			return child.Err()
		})
		start := time.Now()
		w := f.do(t, "POST", "/", "")
		wantProblem(t, w, problem.OutcomeUnknown, "")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 100
	f := newFixture(t, Config{MaxBody: limit})
	f.Handle(http.MethodPost, "/", func(w http.ResponseWriter, r *http.Request) error {
		var v struct {
			Text string `json:"text"`
		}
		if err := DecodeJSON(r, &v); err != nil {
			return err
		}
		return WriteJSON(w, http.StatusOK, len(v.Text))
	})
	body := func(size int) string { return `{"text":"` + strings.Repeat("x", size-len(`{"text":""}`)) + `"}` }
	if w := f.do(t, "POST", "/", body(limit)); w.Code != http.StatusOK {
		t.Errorf("the limit itself: %d %s", w.Code, w.Body)
	}
	wantProblem(t, f.do(t, "POST", "/", body(limit+1)), problem.BodyTooLarge, "")

	// A client hears of it although it is still sending, and before it sends when it asks.
	addr, client := f.start(t), newClient(t)
	for _, size := range []int{limit, limit + 1, 10 << 20} {
		for _, length := range []int64{int64(size), -1} { // declared and chunked
			for _, expect := range []string{"", "100-continue"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, io.NopCloser(strings.NewReader(body(size))))
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = length
				if expect != "" {
					r.Header.Set("Expect", expect)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatalf("%d bytes (%d, %q): %v", size, length, expect, err)
				}
				if want := map[bool]int{true: 200, false: 413}[size <= limit]; resp.StatusCode != want || (size > limit) != resp.Close {
					t.Errorf("%d bytes (%d, %q): %d, close %v", size, length, expect, resp.StatusCode, resp.Close)
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.Handle(http.MethodGet, "/text", func(w http.ResponseWriter, _ *http.Request) error {
		return WriteJSON(w, http.StatusCreated, map[string]string{"a": "<&>\u2028 é"})
	})
	f.Handle(http.MethodGet, "/bad", func(w http.ResponseWriter, _ *http.Request) error {
		return WriteJSON(w, http.StatusOK, func() {})
	})
	w := f.do(t, "GET", "/text", "")
	const want = "{\"a\":\"<&>\\u2028 é\"}\n"
	if w.Code != http.StatusCreated || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	wantProblem(t, f.do(t, "GET", "/bad", ""), problem.Internal, "")
}
