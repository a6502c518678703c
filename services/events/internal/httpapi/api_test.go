package httpapi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
)

// memory is a store of events whose ids count from 1, or one that fails.
type memory struct {
	events []event.Event
	err    error
}

func (m *memory) Add(_ context.Context, n event.New) (event.ID, error) {
	id := event.ID(len(m.events) + 1)
	m.events = append(m.events, event.Event{ID: id, Value: n.Value, Pending: n.Pending})
	return id, m.err
}

func (m *memory) Find(_ context.Context, id event.ID) (event.Event, error) {
	switch {
	case m.err != nil:
		return event.Event{}, m.err
	case id > event.ID(len(m.events)):
		return event.Event{}, event.ErrNotFound
	}
	return m.events[id-1], nil
}

func (m *memory) Count(context.Context) (int64, error) { return int64(len(m.events)), m.err }

func newServer(t *testing.T, store event.Repository) *apptest.API {
	t.Helper()
	deps := httpserver.Deps{Errors: []func(error) *problem.Error{httpapi.ProblemOf}}
	return apptest.NewAPI(t, api.OpenAPI, 1000, deps, func(e *echo.Echo) {
		httpapi.Register(e, &event.Service{Repository: store, Value: func() string { return "word" }}, nil)
	})
}

func TestLifeOfEvents(t *testing.T) {
	t.Parallel()
	store := new(memory)
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
	store.events[1] = event.Event{ID: 2, Value: "done"}
	s.Want("GET", "/events/2", "", 200, `{"id":2,"value":"done"}`)
}

// TestBodiesAreIgnored: a body is not read, whatever its type.
func TestBodiesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t, new(memory))
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
	s := newServer(t, new(memory))
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
		s := newServer(t, &memory{err: tc.err})
		s.WantProblem("POST", "/events", "", tc.status, tc.code, "")
		s.WantProblem("POST", "/events/async", "", tc.status, tc.code, "")
		s.WantProblem("GET", "/events", "", tc.status, tc.code, "")
		s.WantProblem("GET", "/events/1", "", tc.status, tc.code, "")
	}
}
