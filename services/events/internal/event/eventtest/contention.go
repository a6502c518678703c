package eventtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// working runs one worker on each store, with batches of n, until stop is called.
func working(t *testing.T, n int, stores ...Store) (stop func()) {
	t.Helper()
	var ended atomic.Bool
	var workers sync.WaitGroup
	for _, s := range stores {
		workers.Go(func() {
			for !ended.Load() {
				if _, err := s.Work(t.Context(), n, word); err != nil {
					t.Errorf("work: %v", err)
					return
				}
			}
		})
	}
	return func() { ended.Store(true); workers.Wait() }
}

// gapless: 40 callers add through two stores, with a value and without, while workers work.
func gapless(t *testing.T, one, other Store) {
	ctx := t.Context()
	const callers, each = 40, 10
	ids := make([][]event.ID, callers)

	stop := working(t, 10, one, other)
	waittest.Together(t, callers, func(i int) error {
		for k := range each {
			id, err := []Store{one, other}[i%2].Add(ctx, event.New{Value: "sync", Pending: k%2 == 0})
			if err != nil {
				return err
			}
			ids[i] = append(ids[i], id)
		}
		return nil
	})
	stop()

	for i, own := range ids {
		if !slices.IsSorted(own) {
			t.Errorf("caller %d got its ids in the order %v", i, own)
		}
	}
	for i, id := range slices.Sorted(slices.Values(slices.Concat(ids...))) {
		if id != event.ID(i+1) {
			t.Fatalf("id %d is in the place of %d", id, i+1)
		}
	}

	wantCount(ctx, t, one, callers*each)
}

// exactlyOnce: 8 workers on two stores give every event exactly one value.
func exactlyOnce(t *testing.T, one, other Store) {
	ctx := t.Context()
	const pending, workers = 500, 8
	enqueue(ctx, t, one, pending)

	var worked atomic.Int64
	waittest.Together(t, workers, func(i int) error {
		for worked.Load() < pending { // a batch of none: the other workers hold what is left
			n, err := []Store{one, other}[i%2].Work(ctx, 1+i*4, word)
			if err != nil {
				return fmt.Errorf("worker %d: %w", i, err)
			}
			worked.Add(int64(n))
		}
		return nil
	})

	if worked.Load() != pending {
		t.Errorf("%d values were given, want %d", worked.Load(), pending)
	}
	for id := event.ID(1); id <= pending; id++ {
		want(ctx, t, other, event.Event{ID: id, Value: word(id)})
	}
	wantBacklog(ctx, t, one, event.Backlog{})
	wantCount(ctx, t, one, pending)
}

// heldOpen: while one worker's transaction is open, the others finish all other events, and new ones are added. When
// the worker panics, nothing is stored, and its events are pending again.
func heldOpen(t *testing.T, one, other Store) {
	ctx := t.Context()
	enqueue(ctx, t, one, 30)

	claimed, free := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != errHeld { //nolint:errorlint // the very value
				t.Errorf("recovered %v", p)
			}
		}()
		_, err := one.Work(ctx, 10, func(event.ID) string {
			close(claimed)
			<-free
			panic(errHeld)
		})
		t.Errorf("the batch ended with %v", err)
	}()

	<-claimed
	rest := 0
	for n := 1; n > 0; rest += n {
		n = must[int](t)(other.Work(ctx, 7, word))
	}
	if rest != 20 {
		t.Errorf("the others worked %d, want the 20 that are free", rest)
	}

	if id := must[event.ID](t)(other.Add(ctx, event.New{Pending: true})); id != 31 {
		t.Errorf("the new event has id %d", id)
	}
	if n := must[int](t)(other.Work(ctx, 100, word)); n != 1 {
		t.Errorf("the others worked %d of the 1 new event", n)
	}
	if b := must[event.Backlog](t)(other.Backlog(ctx)); b.Pending != 10 {
		t.Errorf("%d are pending, want the 10 that are held", b.Pending)
	}

	close(free)
	<-done
	if n := must[int](t)(other.Work(ctx, 100, word)); n != 10 {
		t.Errorf("worked %d of the 10 that were given back", n)
	}
	for id := event.ID(1); id <= 31; id++ {
		want(ctx, t, one, event.Event{ID: id, Value: word(id)})
	}
}

var errHeld = errors.New("held long enough")

// readers: while others add and work, every id that was given is found, first pending and then with its value, and the
// count never falls.
func readers(t *testing.T, one, other Store) {
	ctx := t.Context()
	const adds = 300
	var last atomic.Int64 // ids up to it are committed
	var stopped atomic.Bool
	var all sync.WaitGroup

	for r, s := range []Store{one, other, one, other} {
		all.Go(func() {
			var before int64
			finished := make(map[event.ID]bool)
			for k := r; !stopped.Load(); k++ {
				given := last.Load()
				n, err := s.Count(ctx)
				if err != nil || n < before || n < given {
					t.Errorf("the count is %d, %v; it was %d, and %d ids were given", n, err, before, given)
					return
				}
				before = n
				if given == 0 {
					continue
				}

				id := event.ID(given - int64(k)%min(given, 20))
				e, err := s.Find(ctx, id)
				if err != nil || e.ID != id || !e.Pending && e.Value != word(id) || e.Pending && finished[id] {
					t.Errorf("event %d of %d is %+v, %v; finished before: %t", id, given, e, err, finished[id])
					return
				}
				finished[id] = !e.Pending
			}
		})
	}

	stop := working(t, 5, one, other)
	for k := range adds {
		id, err := []Store{one, other}[k%2].Add(ctx, event.New{Pending: true})
		if err != nil || id != event.ID(k+1) {
			t.Errorf("add %d: id %d, %v", k+1, id, err)
			break
		}
		last.Store(int64(id))
	}

	stop()
	stopped.Store(true)
	all.Wait()
}
