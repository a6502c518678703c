package rowlock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
)

// open returns a client of a service that answers by handle. It sends each call once.
func open(t *testing.T, handle http.HandlerFunc) *counts.Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := counts.New(server.URL, rowlock.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What an answer leaves known of a change and of a read. A read that got no answer was not applied.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status  int
		body    string
		code    rowlock.Code
		outcome outcome // of a change
	}{
		"refused":         {404, `{"code":"COUNT_NOT_FOUND"}`, counts.ErrNotFound, settled},
		"not applied":     {503, `{"code":"NOT_APPLIED"}`, rowlock.ErrNotApplied, notMade},
		"no database":     {503, `{"code":"DATABASE_UNAVAILABLE"}`, rowlock.ErrDatabaseUnavailable, notMade},
		"overloaded":      {503, `{"code":"OVERLOADED"}`, rowlock.ErrOverloaded, notMade},
		"outcome unknown": {500, `{"code":"OUTCOME_UNKNOWN"}`, rowlock.ErrOutcomeUnknown, unsure},
		"a bug":           {500, `{"code":"INTERNAL"}`, rowlock.ErrInternal, unsure},
		"processor":       {502, `{"code":"PROCESSOR_ERROR"}`, rowlock.Code("PROCESSOR_ERROR"), unsure},
		"a proxy's":       {503, `upstream reset`, rowlock.ErrBadAnswer, unsure},
		"a redirection":   {301, ``, rowlock.ErrBadAnswer, unsure}, // by which a change would become a read
		"no code":         {404, `{}`, rowlock.ErrBadAnswer, unsure},
		"unreadable":      {200, `{"value":`, rowlock.ErrBadAnswer, unsure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, change := c.Increase(t.Context(), "a", 1)
			_, read := c.Get(t.Context(), "a")
			if !errors.Is(change, tc.code) || !errors.Is(read, tc.code) {
				t.Errorf("a change: %v, a read: %v, want %s", change, read, tc.code)
			}

			if got := outcomeOf(change); got != tc.outcome {
				t.Errorf("a change is %s, want %s", got, tc.outcome)
			}
			if got := outcomeOf(read); (got == notMade) != (tc.outcome != settled) || got == unsure {
				t.Errorf("a read is %s", got)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"INVALID_FIELD","detail":"Too large.","field":"amount","trace_id":"7f"}`)
	})
	_, err := c.Increase(t.Context(), "a", 1)
	e, ok := errors.AsType[*rowlock.Error](err)
	want := rowlock.Error{
		Code: rowlock.ErrInvalidField, Status: 400, Field: "amount", Detail: "Too large.", TraceID: "7f",
		RetryAfter: 3 * time.Second,
	}
	if !ok || *e != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	if got := err.Error(); got != "INVALID_FIELD (400): Too large." {
		t.Error(got)
	}
	if rowlock.NotApplied(io.EOF) || rowlock.OutcomeUnknown(io.EOF) || rowlock.NotApplied(nil) {
		t.Error("an error of another package has an outcome")
	}
}

// A request that was sent may have been applied; one that could not be connected was not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut: // an answer that breaks off, though it could be read
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"itemId":"a"}`)
			_ = http.NewResponseController(w).Flush()
		case http.MethodDelete: // a reset
			conn, _, err := http.NewResponseController(w).Hijack()
			if tcp, ok := conn.(*net.TCPConn); ok {
				err = errors.Join(err, tcp.SetLinger(0), tcp.Close())
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
		panic(http.ErrAbortHandler)
	})
	_, err := c.Increase(t.Context(), "a", 1)
	if !errors.Is(err, rowlock.ErrAnswerLost) || !rowlock.OutcomeUnknown(err) || rowlock.NotApplied(err) {
		t.Errorf("a change without an answer: %v", err)
	}
	if _, err = c.Set(t.Context(), "a", 1); !errors.Is(err, rowlock.ErrAnswerLost) || !rowlock.OutcomeUnknown(err) {
		t.Errorf("half an answer: %v", err)
	}
	if err = c.Delete(t.Context(), "a"); !errors.Is(err, syscall.ECONNRESET) || !rowlock.OutcomeUnknown(err) {
		t.Errorf("a reset: %v", err)
	}
	_, err = c.Get(t.Context(), "a")
	if e, ok := errors.AsType[*rowlock.Error](err); !ok || !e.Read || !rowlock.NotApplied(err) ||
		rowlock.OutcomeUnknown(err) {
		t.Errorf("a read without an answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Increase(ctx, "a", 1); !errors.Is(err, context.Canceled) || !rowlock.OutcomeUnknown(err) {
		t.Errorf("a context that ended: %v", err)
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err = counts.New(gone.URL, rowlock.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Increase(t.Context(), "a", 1); !errors.Is(err, rowlock.ErrUnreachable) || !rowlock.NotApplied(err) {
		t.Errorf("a refused connection: %v", err)
	}
}

// loseChanges returns a service that answers reads, and ends at the first change.
func loseChanges(t *testing.T) *httptest.Server {
	t.Helper()
	var service *httptest.Server
	service = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			_ = service.Listener.Close()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"itemId":"a"}`)
	}))
	t.Cleanup(service.Close)
	return service
}

// A change with a key that was sent may have been made, though net/http would send it again, and fail to connect.
func TestLostChangesWithAKey(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *counts.Client, key counts.Option) error{
		"with a body": func(c *counts.Client, key counts.Option) error {
			_, err := c.Increase(t.Context(), "a", 1, key)
			return err
		},
		"without one": func(c *counts.Client, key counts.Option) error { return c.Reset(t.Context(), "a", key) },
	} {
		c, err := counts.New(loseChanges(t).URL, rowlock.WithoutRetries())
		if err != nil {
			t.Fatal(err)
		}

		// net/http repeats on a used connection alone.
		if _, err = c.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		err = change(c, counts.WithKey("key"))
		if !errors.Is(err, rowlock.ErrAnswerLost) || !rowlock.OutcomeUnknown(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Ids arrive as they were given, those of dots too.
func TestSegments(t *testing.T) {
	t.Parallel()
	var path string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.WriteHeader(http.StatusNoContent)
	})
	for _, id := range []string{
		"a/b", "100%", "%2F", "a+b", ".", "..", "...", "a;b", "é 🎉", "?x=1#y", "\x00.", "a\x00.b", "a/\x00.",
	} {
		if err := c.Delete(t.Context(), id); err != nil || path != "/api/v1/internal/counts/"+id {
			t.Errorf("%q arrived at %q, %v", id, path, err)
		}
	}
}

// Pages lead through every count of a prefix, as long as there is a next one.
func TestPages(t *testing.T) {
	t.Parallel()
	var asked, found []string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		after := r.URL.Query().Get("after")
		asked = append(asked, after)
		if len(after) < 2 {
			w.Header().Set("Link", `<...>; rel="next"`)
		}
		_, _ = io.WriteString(w, `[{"itemId":"a`+after+`"}]`)
	})

	for count, err := range c.All(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, count.ID)
	}
	if !slices.Equal(asked, []string{"", "a", "aa"}) || !slices.Equal(found, []string{"a", "aa", "aaa"}) {
		t.Errorf("asked for what comes after %q, and found %q", asked, found)
	}
}
