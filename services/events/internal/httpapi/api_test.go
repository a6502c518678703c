package httpapi_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// openStore opens a store on a new database.
func openStore(t *testing.T) *postgres.Store {
	t.Helper()
	const lock, statement = 5 * time.Second, 8 * time.Second
	db := apptest.Pool(t, sqldb.Settings{
		URL: dbtest.Postgres(t, postgres.Migrations()), MaxOpenConns: 4, LockTimeout: lock, StatementTimeout: statement,
	}, prometheus.NewRegistry())
	store, err := postgres.New(groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, postgres.Migrations().HistorySchema, time.Minute),
		LockTimeout: lock, StatementTimeout: statement,
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newServer(t *testing.T, store event.Repository) *apptest.API {
	t.Helper()
	deps := httpserver.Deps{Errors: []func(error) *problem.Error{httpapi.ProblemOf}}
	return apptest.NewAPI(t, api.OpenAPI, 1000, deps, func(e *echo.Echo) {
		httpapi.Register(e, &event.Service{Repository: store, Value: func() string { return "word" }}, nil)
	})
}

func TestLifeOfEvents(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newServer(t, store)
	s.Want("GET", "/events", "", 200, `{"count":0}`)
	created := s.Want("POST", "/events", "", 201, `{"id":1,"value":"word"}`).Header.Get("Location")
	pending := s.Want("POST", "/events/async", "", 202, `{"id":2}`).Header.Get("Location")
	if created != "/events/1" || pending != "/events/2" {
		t.Errorf("the events are at %q and %q", created, pending)
	}
	s.Want("GET", "/events/1", "", 200, `{"id":1,"value":"word"}`)
	s.Want("GET", "/events/2", "", 200, `{"id":2,"value":null}`)
	s.Want("GET", "/events", "", 200, `{"count":2}`)
	if n, err := store.Work(t.Context(), 10, func(event.ID) string { return "done" }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.Want("GET", "/events/2", "", 200, `{"id":2,"value":"done"}`)
}

// TestBodiesAreIgnored: a body is not read, whatever its type.
func TestBodiesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t, openStore(t))
	for _, contentType := range []string{"application/json", "text/plain", "nonsense"} {
		for _, body := range []string{"", "{", "value=1", "\xff\x00"} {
			for path, status := range map[string]int{"/events": 201, "/events/async": 202} {
				s.Want("POST", path, body, status, "", "Content-Type", contentType)
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, openStore(t))
	s.Want("POST", "/events", "", 201, `{"id":1,"value":"word"}`)
	for _, id := range []string{
		"0", "+1", "01", "1.0", "9223372036854775808", "%20", "1%20", "%00", "%ff", "1%2F2", "%F0%9F%98%80", "1;2", "async",
	} {
		s.WantProblem("GET", "/events/"+id, "", 400, "INVALID_FIELD", "id")
	}
	s.WantProblem("GET", "/events/2", "", 404, "EVENT_NOT_FOUND", "id")
	s.WantProblem("GET", "/events/9223372036854775807", "", 404, "EVENT_NOT_FOUND", "id")
	s.Want("GET", "/events", "", 200, `{"count":1}`)
}

// failing is a store that fails.
type failing struct{ err error }

func (f failing) Add(context.Context, event.New) (event.ID, error)    { return 0, f.err }
func (f failing) Find(context.Context, event.ID) (event.Event, error) { return event.Event{}, f.err }
func (f failing) Count(context.Context) (int64, error)                { return 0, f.err }

func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{event.ErrStatus, 503, "NOT_APPLIED"},
		{errors.New("a bug"), 500, "INTERNAL"},
	} {
		s := newServer(t, failing{tc.err})
		s.WantProblem("POST", "/events", "", tc.status, tc.code, "")
		s.WantProblem("POST", "/events/async", "", tc.status, tc.code, "")
		s.WantProblem("GET", "/events", "", tc.status, tc.code, "")
		s.WantProblem("GET", "/events/1", "", tc.status, tc.code, "")
	}
}
