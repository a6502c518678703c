package coalesce

import (
	"time"

	"go.opentelemetry.io/otel/trace"
)

// state is where a call stands; it changes only under Coalescer.mu.
type state uint8

const (
	queued  state = iota // in a lane, may still leave
	sent                 // in a group that Run is working on
	settled              // answered, or left before it was sent
)

// call is one caller's request on its way.
type call[Q, R any] struct {
	req   Q
	since time.Time      // when Do was called: LockTimeout counts from here
	done  chan Answer[R] // buffered: delivering never waits for the caller
	state state
	left  bool // the caller was told ErrUnknown while the call was sent
	tried bool // was in a group before; touched only by who owns the group

	span trace.Span // what it came with; nil where that is not recorded
}

// fifo is a queue whose memory is used again once it has drained.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) empty() bool { return f.head == len(f.items) }

func (f *fifo[T]) peek() T { return f.items[f.head] }

func (f *fifo[T]) pop() {
	var zero T
	f.items[f.head] = zero // let go of what it pointed to
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
