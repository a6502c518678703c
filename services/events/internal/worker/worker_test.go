package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/worker"
)

// seen is an observer that records when a worker found how many events: 0 for none, failed for a batch that failed.
type seen struct {
	mu    sync.Mutex
	found map[int][]time.Time
}

const failed = -1

// Worked implements worker.Observer.
func (s *seen) Worked(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = make(map[int][]time.Time)
	}
	s.found[n] = append(s.found[n], time.Now())
}

// FoundNothing implements worker.Observer.
func (s *seen) FoundNothing() { s.Worked(0) }

// Failed implements worker.Observer.
func (s *seen) Failed() { s.Worked(failed) }

// times returns when n events were found.
func (s *seen) times(n int) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found[n])
}

// wantSpaced tests that 1 to 1.5 s lie between the moments.
func wantSpaced(t *testing.T, moments []time.Time) {
	t.Helper()
	waits := make(map[time.Duration]bool)
	for i := 1; i < len(moments); i++ {
		d := moments[i].Sub(moments[i-1])
		if d < time.Second || d >= 1500*time.Millisecond {
			t.Errorf("%s between two polls", d)
		}
		waits[d] = true
	}
	if len(waits) < 2 {
		t.Error("all waits are the same")
	}
}

func run(t *testing.T, q event.Queue, batch, concurrency int, s *seen, log *slog.Logger) (stop func()) {
	t.Helper()
	w := &worker.Worker{
		Queue: q, Observer: s, Log: log, Batch: batch, Concurrency: concurrency, Value: func() string { return "word" },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// backlog is a queue of pending events, for one worker at a time.
type backlog struct {
	event.Queue

	pending int
}

// Work implements event.Queue.
func (b *backlog) Work(_ context.Context, limit int, value func(event.ID) string) (n int, err error) {
	for ; n < min(limit, b.pending); n++ {
		if value(event.ID(n+1)) != "word" {
			return 0, errors.New("the worker asked for another value")
		}
	}
	b.pending -= n
	return n, nil
}

func TestPollsAndWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s seen
		begin := time.Now()
		stop := run(t, &backlog{pending: 25}, 10, 1, &s, slog.New(slog.DiscardHandler))
		synctest.Wait()
		if len(s.times(10)) != 2 || len(s.times(5)) != 1 || len(s.times(0)) != 1 || time.Since(begin) != 0 {
			t.Errorf("after %s: %v", time.Since(begin), s.found)
		}
		time.Sleep(time.Minute)
		begin = time.Now()
		stop() // at once: the worker is idle
		if took := time.Since(begin); took != 0 {
			t.Errorf("the stop took %s", took)
		}
		if n := len(s.times(0)); n < 40 {
			t.Errorf("%d polls in a minute", n)
		}
		wantSpaced(t, s.times(0))
	})
}

// failing is a queue that fails.
type failing struct{ event.Queue }

func (failing) Work(context.Context, int, func(event.ID) string) (int, error) {
	return 0, errors.New("the database is away")
}

func TestFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s seen
		var log strings.Builder
		stop := run(t, failing{}, 10, 1, &s, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(30 * time.Second)
		stop()
		if len(s.times(failed)) < 20 || len(s.found) != 1 || !strings.Contains(log.String(), "the database is away") {
			t.Errorf("%v, %s", s.found, log.String())
		}
		wantSpaced(t, s.times(failed))
	})
}

// slow is a queue whose batch takes 3 s and ends with its context.
type slow struct {
	event.Queue

	begun, finished atomic.Int64
}

func (q *slow) Work(ctx context.Context, _ int, value func(event.ID) string) (int, error) {
	q.begun.Add(1)
	value(1)
	select {
	case <-time.After(3 * time.Second):
		q.finished.Add(1)
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestStopFinishesTheBatch: after SIGTERM every batch under way is finished, and no other is begun.
func TestStopFinishesTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q slow
		var s seen
		stop := run(t, &q, 10, 4, &s, slog.New(slog.DiscardHandler))
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		took := time.Since(begin)
		worked := len(s.times(1))
		if q.begun.Load() != 4 || q.finished.Load() != 4 || took != 2*time.Second || worked != 4 || len(s.found) != 1 {
			t.Errorf("%d begun, %d finished, in %s, %v", q.begun.Load(), q.finished.Load(), took, s.found)
		}
	})
}
