package eventtest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

func addAndFind(t *testing.T, s, other Store) {
	ctx := t.Context()
	wantCount(ctx, t, s, 0)
	if id := must[event.ID](t)(s.Add(ctx, event.New{Value: "first"})); id != 1 {
		t.Errorf("the first id is %d", id)
	}
	if id := must[event.ID](t)(other.Add(ctx, event.New{Pending: true})); id != 2 {
		t.Errorf("the second id is %d", id)
	}
	for _, replica := range []Store{s, other} {
		want(ctx, t, replica, event.Event{ID: 1, Value: "first"})
		want(ctx, t, replica, event.Event{ID: 2, Pending: true})
		wantMissing(ctx, t, replica, 3)
		wantMissing(ctx, t, replica, math.MaxInt64)
		wantCount(ctx, t, replica, 2)
	}
}

// values are returned as they were stored, byte for byte.
func values(t *testing.T, s, _ Store) {
	ctx := t.Context()
	hostile := []string{
		"a", "Word", " spaces ", "'; DROP TABLE events; --", `back\slash`, "100%", "$1 ? :name", "ünïcödé", "\u65e5\u672c",
		"😀", "\u202e rtl", strings.Repeat("x", event.MaxValueBytes), "{1,2}", "NULL", "\"quoted\"",
	}
	for i, value := range hostile {
		if id := must[event.ID](t)(s.Add(ctx, event.New{Value: value})); id != event.ID(i+1) {
			t.Errorf("%q got id %d", value, id)
		}
		want(ctx, t, s, event.Event{ID: event.ID(i + 1), Value: value})
	}

	enqueue(ctx, t, s, len(hostile))
	n := must[int](t)(s.Work(ctx, 100, func(id event.ID) string { return hostile[int(id)-1-len(hostile)] }))
	if n != len(hostile) {
		t.Errorf("worked %d, want %d", n, len(hostile))
	}
	for i, value := range hostile {
		want(ctx, t, s, event.Event{ID: event.ID(len(hostile) + i + 1), Value: value})
	}
}

// work claims no more than the limit, asks for each value once, and skips events that have one.
func work(t *testing.T, s, other Store) {
	ctx := t.Context()
	must[event.ID](t)(s.Add(ctx, event.New{Value: "done"}))
	if n := must[int](t)(s.Work(ctx, 10, word)); n != 0 {
		t.Errorf("worked %d events that had their value", n)
	}

	enqueue(ctx, t, s, 7)
	calls := make(map[event.ID]int)
	for i, limit := range []int{1, 3, 1, 100, 100} {
		n := must[int](t)(other.Work(ctx, limit, func(id event.ID) string { calls[id]++; return word(id) }))
		if want := []int{1, 3, 1, 2, 0}[i]; n != want {
			t.Errorf("%d. batch: worked %d, want %d", i+1, n, want)
		}
	}

	want(ctx, t, s, event.Event{ID: 1, Value: "done"})
	for id := event.ID(2); id <= 8; id++ {
		want(ctx, t, s, event.Event{ID: id, Value: word(id)})
		if calls[id] != 1 {
			t.Errorf("the value of %d was asked for %d times", id, calls[id])
		}
	}
}

func backlog(t *testing.T, s, _ Store) {
	ctx := t.Context()
	wantBacklog(ctx, t, s, event.Backlog{})
	must[event.ID](t)(s.Add(ctx, event.New{Value: "x"}))
	wantBacklog(ctx, t, s, event.Backlog{})
	enqueue(ctx, t, s, 2)
	must[event.ID](t)(s.Add(ctx, event.New{Value: "x"}))
	wantBacklog(ctx, t, s, event.Backlog{Pending: 2, Distance: 3})
	must[int](t)(s.Work(ctx, 10, word))
	wantBacklog(ctx, t, s, event.Backlog{})
}

// endedContext: a caller whose context has ended adds and works nothing.
func endedContext(t *testing.T, s, _ Store) {
	ctx, cancel := context.WithCancel(t.Context())
	enqueue(ctx, t, s, 1)
	cancel()
	if _, err := s.Add(ctx, event.New{Value: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("add: %v", err)
	}
	if n, err := s.Work(ctx, 1, word); !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("work: %d, %v", n, err)
	}
	wantCount(t.Context(), t, s, 1)
	wantBacklog(t.Context(), t, s, event.Backlog{Pending: 1, Distance: 1})
}
