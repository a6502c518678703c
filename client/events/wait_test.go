package events_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

// The value is waited for, also while the service cannot be read, and the id is told whatever comes.
func TestCreateAndWait(t *testing.T) {
	t.Parallel()
	type answer = clienttest.Answer
	created, worked := answer{Status: 202, Body: `{"id":8}`}, answer{Status: 200, Body: `{"id":8,"value":"lookup"}`}
	pending := answer{Status: 200, Body: `{"id":8,"value":null}`}
	for name, tc := range map[string]struct {
		reads      []answer // the last one is repeated
		value      string
		code       error
		from, upTo time.Duration
	}{
		"at once":    {[]answer{worked}, "lookup", nil, 25e6, 75e6},
		"later":      {append(slices.Repeat([]answer{pending}, 9), worked), "lookup", nil, 5575e6, 16725e6},
		"overloaded": {append(slices.Repeat([]answer{clienttest.Overloaded}, 19), worked), "lookup", nil, 0, time.Minute},
		"never":      {[]answer{pending}, "", events.ErrPending, time.Minute, time.Minute},
		"refused":    {[]answer{clienttest.Unauthenticated}, "", rowlock.ErrUnauthenticated, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: append([]answer{created}, tc.reads...)}
				c, err := events.New("http://events", s.Option())
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
