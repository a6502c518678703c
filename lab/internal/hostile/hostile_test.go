package hostile

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
)

// target returns a victim that answers every request with the status, and ends the attack after so many.
func target(t *testing.T, status int, requests int64) (*Victim, context.Context) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(end)
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w.WriteHeader(status); seen.Add(1) > requests {
			end()
		}
	}))
	t.Cleanup(server.Close)
	v := &Victim{
		Addrs:  func() []string { return []string{server.Listener.Addr().String()} },
		Change: Post("/", "application/json", "{}", 0),
		Bad:    []string{Get("/bad")},
	}
	return v, ctx
}

// An answer that should not have been given is counted, and one that should is not.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attack fault.Action
		status int
		wrong  string // a part of what is counted
	}{
		"cross-site allowed":   {fault.CrossSite, http.StatusCreated, "answered 201"},
		"cross-site refused":   {fault.CrossSite, http.StatusForbidden, ""},
		"malformed failed":     {fault.Malformed, http.StatusInternalServerError, "answered 500"},
		"malformed overload":   {fault.Malformed, http.StatusServiceUnavailable, "answered 503"},
		"malformed understood": {fault.Malformed, http.StatusBadRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, ctx := target(t, tc.status, 3)
			if n := v.Attacks()[tc.attack](ctx); n < 3 {
				t.Errorf("%d requests", n)
			}
			found := tc.wrong == "" && len(v.Wrong()) == 0
			for what := range v.Wrong() {
				found = found || tc.wrong != "" && strings.Contains(what, tc.wrong)
			}
			if !found {
				t.Errorf("%v, want %q", v.Wrong(), tc.wrong)
			}
		})
	}
}
