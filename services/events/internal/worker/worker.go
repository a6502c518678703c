// Package worker gives pending events their values, in a loop like the source's standalone workers.
package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Observer records the batches of the workers.
type Observer interface {
	// Worked records that a batch of n events was committed.
	Worked(n int)
	// FoundNothing records that no event was pending.
	FoundNothing()
	// Failed records that a batch was not committed, or that its outcome is unknown.
	Failed()
}

// After a poll that found nothing or failed, a worker waits idleWait plus up to idleSpread, so that workers that
// started together drift apart.
const (
	idleWait   = time.Second
	idleSpread = 500 * time.Millisecond
)

// Worker polls a queue.
type Worker struct {
	Queue    event.Queue
	Observer Observer
	Log      *slog.Logger
	// Batch limits the events of one transaction.
	Batch int
	// Concurrency is the number of transactions that run at once.
	Concurrency int
	// Value returns the value of an event, such as event.RandomWord.
	Value func() string
	// Operations starts the span of each batch; nil without tracing.
	Operations *telemetry.Operations
}

// Run works until ctx ends. It then finishes the current batch: its statements do not get ctx; the timeouts of the
// database limit them.
func (w *Worker) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range w.Concurrency {
		all.Go(func() { w.loop(ctx) })
	}
	all.Wait()
	return nil
}

func (w *Worker) loop(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := w.batch(context.WithoutCancel(ctx))
		switch {
		case err != nil:
			w.Observer.Failed()
			w.Log.WarnContext(ctx, "a batch of events was not worked and will be tried again", slog.Any("error", err))
		case n > 0:
			w.Observer.Worked(n)
			continue // there may be more
		default:
			w.Observer.FoundNothing()
		}

		select {
		case <-time.After(idleWait + rand.N(idleSpread)):
		case <-ctx.Done():
		}
	}
}

// batch works up to Batch events and returns their number. With tracing each batch is a separate trace.
func (w *Worker) batch(ctx context.Context) (n int, err error) {
	if w.Operations != nil {
		var end func(int, error)
		ctx, end = w.Operations.StartPoll(ctx, "events.work")
		defer func() { end(n, err) }()
	}
	return w.Queue.Work(ctx, w.Batch, func(event.ID) string { return w.Value() })
}
