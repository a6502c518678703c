package httpapi_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// openStore opens a store on a new database.
func openStore(t *testing.T) *postgres.Store {
	t.Helper()
	const lock, statement = 5 * time.Second, 8 * time.Second
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dbtest.Postgres(t, postgres.Migrations()), MaxOpenConns: 4, LockTimeout: lock, StatementTimeout: statement,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	options := allocate.Options{LockTimeout: lock, StatementTimeout: statement}
	store, err := postgres.New(db, options, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// server serves the API and checks its answers against the contract.
type server struct {
	t        *testing.T
	http     *httpserver.Server
	contract *apptest.Contract
}

func newServer(t *testing.T, store event.Repository) *server {
	t.Helper()
	s, err := httpserver.New(httpserver.Config{Name: "api", LogRequests: "none", MaxBody: 1000}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Errors: []func(error) *problem.Error{httpapi.ProblemOf, coalesce.Problem},
	})
	if err != nil {
		t.Fatal(err)
	}
	httpapi.Register(s.Echo(), event.NewService(store, func() string { return "word" }), nil)
	return &server{t: t, http: s, contract: apptest.NewContract(t, api.OpenAPI)}
}

func (s *server) want(method, path string, status int, body, location string) {
	s.t.Helper()
	a := s.contract.Serve(s.t, s.http, method, path, "")
	if a.Status != status || strings.TrimSuffix(a.Body, "\n") != body || a.Header.Get("Location") != location {
		s.t.Errorf("%s %s: %s, %v; want %d %s, Location %q", method, path, a, a.Header, status, body, location)
	}
}

func (s *server) wantProblem(method, path string, status int, code, field string) {
	s.t.Helper()
	a := s.contract.Serve(s.t, s.http, method, path, "")
	if a.Status != status || a.Code != code || a.Field != field {
		s.t.Errorf("%s %s: %s, want %d %s %q", method, path, a, status, code, field)
	}
}

func TestLifeOfEvents(t *testing.T) {
	t.Parallel()
	store := openStore(t)
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

// TestBodiesAreIgnored: a body is not read, whatever its type.
func TestBodiesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t, openStore(t))
	for _, contentType := range []string{"application/json", "text/plain", "nonsense"} {
		for _, body := range []string{"", "{", "value=1", "\xff\x00"} {
			for path, status := range map[string]int{"/events": 201, "/events/async": 202} {
				a := s.contract.Serve(t, s.http, "POST", path, body, "Content-Type", contentType)
				if a.Status != status {
					t.Errorf("%s with %q as %q: %s", path, body, contentType, a)
				}
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, openStore(t))
	s.want("POST", "/events", 201, `{"id":1,"value":"word"}`, "/events/1")
	for _, id := range []string{
		"0", "+1", "01", "1.0", "9223372036854775808", "%20", "1%20", "%00", "%ff", "1%2F2", "%F0%9F%98%80", "1;2", "async",
	} {
		s.wantProblem("GET", "/events/"+id, 400, "INVALID_FIELD", "id")
	}
	s.wantProblem("GET", "/events/2", 404, "EVENT_NOT_FOUND", "id")
	s.wantProblem("GET", "/events/9223372036854775807", 404, "EVENT_NOT_FOUND", "id")
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

// TestRoutesAreThoseOfTheContract: the contract and the routes name the same operations.
func TestRoutesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	e := echo.New()
	httpapi.Register(e, event.NewService(eventtest.Failing{}, nil), nil)
	apptest.NewContract(t, api.OpenAPI).WantRoutes(t, e)
}
