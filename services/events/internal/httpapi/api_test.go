package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/coalesce"
	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
)

// server serves the port on a store.
type server struct {
	t      *testing.T
	http   *httpserver.Server
	router routers.Router
}

func newServer(t *testing.T, store event.Repository) *server {
	t.Helper()
	s, err := httpserver.New(httpserver.Config{Name: "api", LogRequests: "none", MaxBody: 1000}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Errors: []func(error) *problem.Error{httpapi.Problem, coalesce.Problem},
	})
	if err != nil {
		t.Fatal(err)
	}
	httpapi.Register(s, event.NewService(store, func() string { return "word" }))
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &server{t: t, http: s, router: router}
}

// do sends a request and holds the answer against the contract.
func (s *server) do(method, path, body, contentType string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		return w // not in the contract, such as a wrong method
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 w.Code,
		Header:                 w.Header(),
		Body:                   io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		s.t.Errorf("%s %s: the answer %d %s breaks the contract: %v", method, path, w.Code, w.Body, err)
	}
	return w
}

func (s *server) want(method, path string, status int, body, location string) {
	s.t.Helper()
	w := s.do(method, path, "", "")
	if w.Code != status || strings.TrimSuffix(w.Body.String(), "\n") != body || w.Header().Get("Location") != location {
		s.t.Errorf("%s %s: %d %s, Location %q; want %d %s, %q", method, path, w.Code, w.Body, w.Header().Get("Location"), status, body, location)
	}
}

func (s *server) wantProblem(method, path string, status int, code, field string) {
	s.t.Helper()
	w := s.do(method, path, "", "")
	var p struct{ Code, Field, Detail string }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != problem.ContentType {
		s.t.Errorf("%s %s: not a problem: %s", method, path, w.Body)
	}
	if w.Code != status || p.Code != code || p.Field != field {
		s.t.Errorf("%s %s: %d %s %q, want %d %s %q", method, path, w.Code, p.Code, p.Field, status, code, field)
	}
}

func TestLifeOfEvents(t *testing.T) {
	t.Parallel()
	store := new(eventtest.Memory)
	s := newServer(t, store)
	s.want("GET", "/events", 200, `{"count":0}`, "")
	s.want("POST", "/events", 201, `{"id":1,"value":"word"}`, "/events/1")
	s.want("POST", "/events/async", 202, `{"id":2}`, "/events/2")
	s.want("GET", "/events/1", 200, `{"id":1,"value":"word"}`, "")
	s.want("GET", "/events/2", 200, `{"id":2,"value":null}`, "")
	s.want("GET", "/events", 200, `{"count":2}`, "")
	if n, err := store.Work(t.Context(), 10, func(event.ID) string { return "done" }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.want("GET", "/events/2", 200, `{"id":2,"value":"done"}`, "")
}

// Bodies are ignored, whatever they hold and claim to be.
func TestBodiesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t, new(eventtest.Memory))
	for _, contentType := range []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense"} {
		for _, body := range []string{"", "{}", "{", "value=1", "\xff\x00"} {
			for path, status := range map[string]int{"/events": 201, "/events/async": 202} {
				if w := s.do("POST", path, body, contentType); w.Code != status {
					t.Errorf("%s with %q as %q: %d %s", path, body, contentType, w.Code, w.Body)
				}
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, new(eventtest.Memory))
	s.want("POST", "/events", 201, `{"id":1,"value":"word"}`, "/events/1")
	for _, id := range []string{
		"0", "-1", "+1", "01", "abc", "1.0", "1e3", "9223372036854775808", "%20", "1%20", "%00", "%ff", "1%2F2", "%F0%9F%98%80", "1;2", "async",
	} {
		s.wantProblem("GET", "/events/"+id, 400, "INVALID_FIELD", "id")
	}
	s.wantProblem("GET", "/events/2", 404, "EVENT_NOT_FOUND", "id")
	s.wantProblem("GET", "/events/9223372036854775807", 404, "EVENT_NOT_FOUND", "id")
	s.wantProblem("GET", "/nothing", 404, "NOT_FOUND", "")
	s.wantProblem("DELETE", "/events", 405, "METHOD_NOT_ALLOWED", "")
	s.wantProblem("PUT", "/events/1", 405, "METHOD_NOT_ALLOWED", "")
	s.want("GET", "/events", 200, `{"count":1}`, "")
}

func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{event.ErrStatus, 503, "NOT_APPLIED"},
		{coalesce.ErrQueueFull, 503, "OVERLOADED"},
		{coalesce.ErrLocked, 503, "NOT_APPLIED"},
		{coalesce.ErrUnknown, 500, "OUTCOME_UNKNOWN"},
		{errors.New("a bug"), 500, "INTERNAL"},
	} {
		s := newServer(t, eventtest.Failing{Err: tc.err})
		s.wantProblem("POST", "/events", tc.status, tc.code, "")
		s.wantProblem("POST", "/events/async", tc.status, tc.code, "")
		s.wantProblem("GET", "/events", tc.status, tc.code, "")
		s.wantProblem("GET", "/events/1", tc.status, tc.code, "")
	}
}

func TestContractKnowsEveryRoute(t *testing.T) {
	t.Parallel()
	s := newServer(t, new(eventtest.Memory))
	for _, route := range [][2]string{{"POST", "/events"}, {"GET", "/events"}, {"POST", "/events/async"}, {"GET", "/events/1"}} {
		r := httptest.NewRequestWithContext(t.Context(), route[0], route[1], http.NoBody)
		if _, _, err := s.router.FindRoute(r); err != nil {
			t.Errorf("%v: %v", route, err)
		}
	}
}
