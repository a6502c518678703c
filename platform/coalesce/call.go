package coalesce

import (
	"time"

	"go.opentelemetry.io/otel/trace"
)

// state is the progress of a call; it changes only under Coalescer.mu.
type state uint8

const (
	queued   state = iota // in a lane, may still be withdrawn
	sent                  // in a group that Run is working on
	finished              // answered, or withdrawn before it was sent
)

// call is one caller's request.
type call[K comparable, Q, R any] struct {
	req   Q
	items int            // its share of MaxItems
	key   K              // the key whose lane it stands in: the first one, or the one that was found locked
	since time.Time      // when Do was called: LockTimeout counts from here
	done  chan Answer[R] // buffered: sending the answer never waits for the caller
	state state

	place     *int // the places of Limits.Share that callers of its key hold, this one among them; nil: it holds none
	slow      bool // has been in the slow lane
	abandoned bool // the caller got ErrUnknown while the call was sent
	observed  bool // its wait is recorded; used only by the group's goroutine

	span trace.Span // the request's own; nil when not recorded
}

// fifo is a queue that reuses its memory once it has drained.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) empty() bool { return f.len() == 0 }

func (f *fifo[T]) peek() T { return f.items[f.head] }

func (f *fifo[T]) pop() {
	var zero T
	f.items[f.head] = zero // release what it pointed to
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head >= 1024 && 2*f.head >= len(f.items):
		// A queue that never drains would otherwise grow at its head for ever.
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
}
