// Package eventtest holds the suite that every store of events must pass, as both an event.Repository and an
// event.Queue. Only tests import it.
package eventtest

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Store holds the methods that the suite tests.
type Store interface {
	event.Repository
	event.Queue
}

// Exercise tests a store: the promises of each method (contract), that an ended context stops it (transactions), and
// that concurrent callers and workers get the exact result (contention). open returns an empty store for each test, and
// a second store on the same data, as another replica has.
func Exercise(t *testing.T, open func(t *testing.T) (one, other Store)) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Store, Store){
		"contract/add and find":        addAndFind,
		"contract/values":              values,
		"contract/work":                work,
		"contract/backlog":             backlog,
		"transactions/ended context":   endedContext,
		"contention/gapless ids":       gapless,
		"contention/exactly once":      exactlyOnce,
		"contention/a batch held open": heldOpen,
		"contention/readers":           readers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := open(t)
			test(t, one, other)
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// enqueue adds n pending events through 50 concurrent callers.
func enqueue(ctx context.Context, t *testing.T, s Store, n int) {
	t.Helper()
	const callers = 50
	waittest.Together(t, min(n, callers), func(i int) (err error) {
		for k := i; k < n; k += callers {
			_, added := s.Add(ctx, event.New{Pending: true})
			err = errors.Join(err, added)
		}
		return err
	})
}

func want(ctx context.Context, t *testing.T, s Store, e event.Event) {
	t.Helper()
	if got, err := s.Find(ctx, e.ID); err != nil || got != e {
		t.Errorf("event %d is %+v, %v; want %+v", e.ID, got, err, e)
	}
}

func wantMissing(ctx context.Context, t *testing.T, s Store, id event.ID) {
	t.Helper()
	if got, err := s.Find(ctx, id); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("event %d is %+v, %v; want ErrNotFound", id, got, err)
	}
}

func wantCount(ctx context.Context, t *testing.T, s Store, n int64) {
	t.Helper()
	if got, err := s.Count(ctx); err != nil || got != n {
		t.Errorf("the count is %d, %v; want %d", got, err, n)
	}
}

func wantBacklog(ctx context.Context, t *testing.T, s Store, b event.Backlog) {
	t.Helper()
	if got, err := s.Backlog(ctx); err != nil || got != b {
		t.Errorf("the backlog is %+v, %v; want %+v", got, err, b)
	}
}

// word returns a value that names the event, so that a test notices the value of another event.
func word(id event.ID) string { return "value of " + id.String() }
