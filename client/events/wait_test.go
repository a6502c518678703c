package events_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/events"
)

// worker gives event 8 its value when it is read for the last time, and answers some reads with a status before.
type worker struct {
	reads, last, status int
	problem             string
}

func (w *worker) RoundTrip(req *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	if req.Method == http.MethodPost {
		recorder.WriteHeader(http.StatusAccepted)
	} else {
		w.reads++
		if w.reads < w.last && w.status != 0 {
			recorder.WriteHeader(w.status)
			_, _ = recorder.WriteString(w.problem)
			return recorder.Result(), nil
		}
	}
	value := "null"
	if w.reads == w.last {
		value = `"lookup"`
	}
	_, _ = fmt.Fprintf(recorder, `{"id":8,"value":%s}`, value)
	resp := recorder.Result()
	resp.Request = req
	return resp, nil
}

// The value is waited for, also while the service cannot be read, and the id is told whatever comes.
func TestCreateAndWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		worker     worker
		value      string
		code       error
		from, upTo time.Duration
	}{
		"at once":    {worker{last: 1}, "lookup", nil, 25e6, 75e6},
		"later":      {worker{last: 10}, "lookup", nil, 5575e6, 16725e6},
		"overloaded": {worker{last: 20, status: 503, problem: `{"code":"OVERLOADED"}`}, "lookup", nil, 0, time.Minute},
		"never":      {worker{last: 1000}, "", events.ErrPending, time.Minute, time.Minute},
		"refused": {
			worker{last: 1000, status: 401, problem: `{"code":"UNAUTHENTICATED"}`},
			"",
			rowlock.ErrUnauthenticated, 0, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, err := events.New("http://events", rowlock.WithHTTPClient(&http.Client{Transport: &tc.worker}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				event, err := c.CreateAndWait(ctx)
				if event.ID != 8 || event.Value != tc.value || tc.code == nil && err != nil || !errors.Is(err, tc.code) {
					t.Errorf("%+v, %v", event, err)
				}
				if errors.Is(err, events.ErrPending) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("without the reason: %v", err)
				}
				if took := time.Since(begun); took < tc.from || took > tc.upTo {
					t.Errorf("it took %s, want %s to %s", took, tc.from, tc.upTo)
				}
			})
		})
	}
}
