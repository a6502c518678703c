package groupcommit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// state is the progress of a call. It changes only under Committer.mu.
type state uint8

const (
	queued   state = iota // in the queue or a lane: its caller may withdraw it
	sent                  // in a group that is under way
	finished              // answered, or withdrawn
)

// call is one caller's request.
type call[K comparable, Q, R any] struct {
	request Q
	key     K
	since   time.Time      // when its caller came: LockTimeout counts from here
	done    chan answer[R] // buffered: an answer never waits for the caller
	state   state

	tries     int        // that found its key locked
	hasPlace  bool       // of Limits.Share
	inLane    bool       // it has stood in a lane
	abandoned bool       // its caller got ErrUnknown
	doubtful  bool       // an earlier sending by Repeat may have been applied; used only by the goroutine of its group
	observed  bool       // its wait was recorded; used only by the goroutine of its group
	span      trace.Span // the request's own; nil when it is not recorded
}

// answer is what a caller gets.
type answer[R any] struct {
	value R
	err   error
}

func newCall[K comparable, Q, R any](ctx context.Context, q Q, key K, traced bool) *call[K, Q, R] {
	w := &call[K, Q, R]{request: q, key: key, since: time.Now(), done: make(chan answer[R], 1)}
	if !traced {
		return w
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		w.span = span
	}
	return w
}

// fifo is a queue that uses its memory again once it has drained.
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
	f.items[f.head] = zero // releases what it pointed to
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
