package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// tracedUpdates is the port with a span around each call.
type tracedUpdates struct {
	*telemetry.Operations

	next counting.ExternalCountUpdateAPI
}

// Increase implements counting.ExternalCountUpdateAPI.
func (t tracedUpdates) Increase(ctx context.Context, id counting.ItemID, by counting.Amount) (value int64, err error) {
	ctx, end := t.Start(ctx, "counts.increase")
	defer end(&err)
	return t.next.Increase(ctx, id, by)
}

// Decrease implements counting.ExternalCountUpdateAPI.
func (t tracedUpdates) Decrease(ctx context.Context, id counting.ItemID, by counting.Amount) (value int64, err error) {
	ctx, end := t.Start(ctx, "counts.decrease")
	defer end(&err)
	return t.next.Decrease(ctx, id, by)
}

// Reset implements counting.ExternalCountUpdateAPI.
func (t tracedUpdates) Reset(ctx context.Context, id counting.ItemID) (value int64, err error) {
	ctx, end := t.Start(ctx, "counts.reset")
	defer end(&err)
	return t.next.Reset(ctx, id)
}

// tracedValues is the port with a span around each call.
type tracedValues struct {
	*telemetry.Operations

	next counting.InternalCountValueAPI
}

// Initialize implements counting.InternalCountValueAPI.
func (t tracedValues) Initialize(ctx context.Context, id counting.ItemID, initial int64) (v counting.CountValue, err error) {
	ctx, end := t.Start(ctx, "counts.initialize")
	defer end(&err)
	return t.next.Initialize(ctx, id, initial)
}

// Get implements counting.InternalCountValueAPI.
func (t tracedValues) Get(ctx context.Context, id counting.ItemID) (v counting.CountValue, err error) {
	ctx, end := t.Start(ctx, "counts.get")
	defer end(&err)
	return t.next.Get(ctx, id)
}

// GetMany implements counting.InternalCountValueAPI.
func (t tracedValues) GetMany(ctx context.Context, ids []counting.ItemID) (v []counting.CountValue, err error) {
	ctx, end := t.Start(ctx, "counts.get_many")
	defer end(&err)
	return t.next.GetMany(ctx, ids)
}

// Set implements counting.InternalCountValueAPI.
func (t tracedValues) Set(ctx context.Context, id counting.ItemID, value int64) (v counting.CountValue, err error) {
	ctx, end := t.Start(ctx, "counts.set")
	defer end(&err)
	return t.next.Set(ctx, id, value)
}

// Delete implements counting.InternalCountValueAPI.
func (t tracedValues) Delete(ctx context.Context, id counting.ItemID) (err error) {
	ctx, end := t.Start(ctx, "counts.delete")
	defer end(&err)
	return t.next.Delete(ctx, id)
}
