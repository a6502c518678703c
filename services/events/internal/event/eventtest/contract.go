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
	}
}

func count(t *testing.T, s, other Store) {
	ctx := t.Context()
	wantCount(ctx, t, s, 0)
	enqueue(ctx, t, s, 3)
	must[event.ID](t)(other.Add(ctx, event.New{Value: "x"}))
	wantCount(ctx, t, s, 4)
	must[int](t)(s.Work(ctx, 2, word))
	wantCount(ctx, t, other, 4)
}

// values come back as they were given, byte for byte.
func values(t *testing.T, s, _ Store) {
	ctx := t.Context()
	hostile := []string{
		"a", "Word", " spaces ", "'; DROP TABLE events; --", `back\slash`, "100%", "$1 ? :name", "ünïcödé", "\u65e5\u672c", "😀", "\u202e rtl",
		strings.Repeat("x", event.MaxValueBytes), "{1,2}", "NULL", "\"quoted\"",
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

func work(t *testing.T, s, other Store) {
	ctx := t.Context()
	if n := must[int](t)(s.Work(ctx, 10, word)); n != 0 {
		t.Errorf("worked %d of nothing", n)
	}
	must[event.ID](t)(s.Add(ctx, event.New{Value: "done"}))
	if n := must[int](t)(s.Work(ctx, 10, word)); n != 0 {
		t.Errorf("worked %d events that had their value", n)
	}
	enqueue(ctx, t, s, 3)
	if n := must[int](t)(other.Work(ctx, 10, word)); n != 3 {
		t.Errorf("worked %d of 3", n)
	}
	want(ctx, t, s, event.Event{ID: 1, Value: "done"})
	for id := event.ID(2); id <= 4; id++ {
		want(ctx, t, s, event.Event{ID: id, Value: word(id)})
	}
	if n := must[int](t)(s.Work(ctx, 10, word)); n != 0 {
		t.Errorf("worked %d events a second time", n)
	}
}

// portions: a limit is a limit, and one is the source's.
func portions(t *testing.T, s, _ Store) {
	ctx := t.Context()
	enqueue(ctx, t, s, 7)
	for i, limit := range []int{1, 3, 1, 100, 100} {
		if n, want := must[int](t)(s.Work(ctx, limit, word)), []int{1, 3, 1, 2, 0}[i]; n != want {
			t.Errorf("%d. batch: worked %d, want %d", i+1, n, want)
		}
	}
	wantBacklog(ctx, t, s, event.Backlog{})
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

// panicking: what gives the values fails in the middle; nothing is stored, and
// nothing stays locked.
func panicking(t *testing.T, s, other Store) {
	ctx := t.Context()
	enqueue(ctx, t, s, 5)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		asked := 0
		_, _ = s.Work(ctx, 5, func(id event.ID) string {
			if asked++; asked == 4 {
				panic("on purpose")
			}
			return word(id)
		})
	}()
	wantBacklog(ctx, t, s, event.Backlog{Pending: 5, Distance: 5})
	if n := must[int](t)(other.Work(ctx, 10, word)); n != 5 {
		t.Errorf("worked %d of 5 afterwards", n)
	}
}

// valueAsked: once for each event of the batch.
func valueAsked(t *testing.T, s, _ Store) {
	ctx := t.Context()
	enqueue(ctx, t, s, 20)
	asked := make(map[event.ID]int)
	must[int](t)(s.Work(ctx, 20, func(id event.ID) string { asked[id]++; return word(id) }))
	for id := event.ID(1); id <= 20; id++ {
		if asked[id] != 1 {
			t.Errorf("the value of %d was asked for %d times", id, asked[id])
		}
	}
}

// endedContext: nothing is added and nothing worked for a caller that has left.
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
