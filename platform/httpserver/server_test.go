package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

func TestMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/things/:id", answer)
	f.handle(http.MethodDelete, "/things/:name", answer)
	f.handle(http.MethodPost, "/things", answer)
	own := func(c echo.Context) error {
		c.Response().Header().Set("X-Own", "yes")
		return nil
	}
	f.handle(http.MethodGet, "/own", answer)
	f.handle(http.MethodHead, "/own", own)
	f.handle(http.MethodHead, "/first", own)
	f.handle(http.MethodGet, "/first", answer)
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
	for _, path := range []string{"/own", "/first"} {
		if w = f.do(t, "HEAD", path, ""); w.Header().Get("X-Own") != "yes" {
			t.Errorf("HEAD has a separate handler: %s: %v", path, w.Header())
		}
	}
	if w = f.do(t, "HEAD", "/things/1", ""); w.Code != http.StatusOK {
		t.Errorf("HEAD beside GET: %d", w.Code)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/", answer)
	const own = "6ba7b810-9dad-11d1-80b4-00C04FD430C8"
	if got := f.do(t, "GET", "/", "", "X-Request-Id", own).Header()["X-Request-Id"]; len(got) != 1 || got[0] != own {
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
		d.WriteError = func(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
			w.Header().Set("X-Error", e.Kind().Code()+" at "+r.URL.Path)
			return problem.Write(w, e, traceID)
		}
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
		f.handle(http.MethodPut, path, func(c echo.Context) error {
			c.Error(err) // echo's other way to answer an error
			return nil
		})
		fail := func(c echo.Context) error {
			c.Response().Header().Set("Location", "/nowhere")
			return err
		}
		f.handle(http.MethodGet, path, fail)
		f.handle(http.MethodPost, path, fail)
	}
	for _, method := range []string{"GET", "POST", "PUT"} {
		outcome := problem.NotApplied
		if method != "GET" {
			outcome = problem.OutcomeUnknown
		}
		wantProblem(t, f.do(t, method, "/problem", ""), problem.DatabaseUnavailable, "")
		wantProblem(t, f.do(t, method, "/wrapped", ""), problem.NotApplied, "")
		wantProblem(t, f.do(t, method, "/domain", ""), missing, "id")
		wantProblem(t, f.do(t, method, "/deadline", ""), outcome, "")
		wantProblem(t, f.do(t, method, "/canceled", ""), outcome, "")
		w := f.do(t, method, "/bug", "")
		d := wantProblem(t, w, problem.Internal, "")
		if got := w.Header().Get("X-Error"); got != "INTERNAL at /bug" {
			t.Errorf("the error was written with %q", got)
		}
		if strings.Contains(w.Body.String(), "secret") || w.Header().Get("Location") != "" {
			t.Errorf("the answer gives away too much: %v %s", w.Header(), w.Body)
		}
		lines := 0
		for _, line := range f.log.lines(t, "request") {
			if line["request_id"] == d.TraceID {
				lines++
				if line["level"] != "ERROR" || !strings.Contains(fmt.Sprint(line["error"]), "secret text") ||
					line["code"] != "INTERNAL" {
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
	f.handle(http.MethodGet, "/panic", func(c echo.Context) error {
		return errors.New([]string{}[len(c.Request().URL.Path)])
	})
	f.handle(http.MethodGet, "/late", func(c echo.Context) error {
		if _, err := io.WriteString(c.Response(), strings.Repeat("x", 5000)); err != nil {
			return err
		}
		panic("late")
	})
	f.handle(http.MethodGet, "/error", func(c echo.Context) error {
		if err := c.JSON(http.StatusOK, "the beginning"); err != nil {
			return err
		}
		return errors.New("the rest cannot be read")
	})
	f.handle(http.MethodGet, "/fine", answer)
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
	if n := len(f.admission.permits); n != 0 {
		t.Errorf("%d requests in flight after panics", n)
	}
}
