package eventtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// gapless: 40 callers over two replicas, both kinds, while workers work.
func gapless(t *testing.T, one, other Store) {
	ctx := t.Context()
	const callers, each = 40, 10
	ids := make([][]event.ID, callers)
	var stop atomic.Bool
	var workers sync.WaitGroup
	for _, s := range []Store{one, other} {
		workers.Go(func() {
			for !stop.Load() {
				if _, err := s.Work(ctx, 10, word); err != nil {
					t.Errorf("work: %v", err)
					return
				}
			}
		})
	}
	if err := waittest.Together(callers, func(i int) error {
		for k := range each {
			s, n := one, event.New{Pending: true}
			if i%2 == 1 {
				s = other
			}
			if k%2 == 1 {
				n = event.New{Value: "sync"}
			}
			id, err := s.Add(ctx, n)
			if err != nil {
				return err
			}
			ids[i] = append(ids[i], id)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	stop.Store(true)
	workers.Wait()
	for i, own := range ids {
		if !slices.IsSorted(own) {
			t.Errorf("caller %d got its ids in the order %v", i, own)
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(ids...)))
	for i, id := range all {
		if id != event.ID(i+1) {
			t.Fatalf("id %d stands where %d should", id, i+1)
		}
	}
	wantCount(ctx, t, one, callers*each)
}

// exactlyOnce: 8 workers over two replicas, and every event has one value, once.
func exactlyOnce(t *testing.T, one, other Store) {
	ctx := t.Context()
	const pending, workers = 500, 8
	enqueue(ctx, t, one, pending)
	var worked atomic.Int64
	if err := waittest.Together(workers, func(i int) error {
		s := one
		if i%2 == 1 {
			s = other
		}
		for misses := 0; misses < 3 && worked.Load() < pending; {
			n, err := s.Work(ctx, 1+i*4, word)
			if err != nil {
				return fmt.Errorf("worker %d: %w", i, err)
			}
			worked.Add(int64(n))
			if n == 0 { // the others may hold what is left
				misses++
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for n := 1; n > 0; {
		n = must[int](t)(one.Work(ctx, 100, word))
		worked.Add(int64(n))
	}
	if worked.Load() != pending {
		t.Errorf("%d values were given, want %d", worked.Load(), pending)
	}
	for id := event.ID(1); id <= pending; id++ {
		want(ctx, t, other, event.Event{ID: id, Value: word(id)})
	}
	wantBacklog(ctx, t, one, event.Backlog{})
	wantCount(ctx, t, one, pending)
}

// heldOpen: while one worker's transaction is open, the others finish all the
// rest, and new events come in; when it fails, its events are there again.
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
		first := true
		_, err := one.Work(ctx, 10, func(event.ID) string {
			if first {
				close(claimed)
				<-free
			}
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

// readers: an id that was given is found from then on, pending and then with its
// value for good, and the count never falls, while everything else goes on.
func readers(t *testing.T, one, other Store) {
	ctx := t.Context()
	const adds, readersOfEach = 300, 2
	var last atomic.Int64 // ids up to it were given, for certain
	var stop atomic.Bool
	var all sync.WaitGroup
	for _, s := range []Store{one, other} {
		all.Go(func() {
			for !stop.Load() {
				if _, err := s.Work(ctx, 5, word); err != nil {
					t.Errorf("work: %v", err)
					return
				}
			}
		})
		for r := range readersOfEach {
			all.Go(func() {
				var before int64
				seen := make(map[event.ID]bool)
				for k := r; !stop.Load(); k++ {
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
					if err != nil || e.ID != id || !e.Pending && e.Value != word(id) || e.Pending && seen[id] {
						t.Errorf("event %d of %d is %+v, %v; finished before: %t", id, given, e, err, seen[id])
						return
					}
					seen[id] = !e.Pending
				}
			})
		}
	}
	for k := range adds {
		s := one
		if k%2 == 1 {
			s = other
		}
		id, err := s.Add(ctx, event.New{Pending: true})
		if err != nil || id != event.ID(k+1) {
			t.Errorf("add %d: id %d, %v", k+1, id, err)
			break
		}
		last.Store(int64(id))
	}
	stop.Store(true)
	all.Wait()
}
