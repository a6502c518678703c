package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// tracedAPI is the port with a span around each call.
type tracedAPI struct {
	*telemetry.Operations

	next event.API
}

// Create implements event.API.
func (t tracedAPI) Create(ctx context.Context) (e event.Event, err error) {
	ctx, end := t.Start(ctx, "events.create")
	defer end(&err)
	return t.next.Create(ctx)
}

// Enqueue implements event.API.
func (t tracedAPI) Enqueue(ctx context.Context) (id event.ID, err error) {
	ctx, end := t.Start(ctx, "events.enqueue")
	defer end(&err)
	return t.next.Enqueue(ctx)
}

// Get implements event.API.
func (t tracedAPI) Get(ctx context.Context, id event.ID) (e event.Event, err error) {
	ctx, end := t.Start(ctx, "events.get")
	defer end(&err)
	return t.next.Get(ctx, id)
}

// Count implements event.API.
func (t tracedAPI) Count(ctx context.Context) (n int64, err error) {
	ctx, end := t.Start(ctx, "events.count")
	defer end(&err)
	return t.next.Count(ctx)
}

// tracedQueue is the queue with a span, and a trace, for each batch that is worked.
type tracedQueue struct {
	event.Queue

	operations *telemetry.Operations
}

// Work implements event.Queue.
func (t tracedQueue) Work(ctx context.Context, limit int, value func(event.ID) string) (int, error) {
	ctx, end := t.operations.StartPoll(ctx, "events.work")
	n, err := t.Queue.Work(ctx, limit, value)
	end(n, err)
	return n, err
}
