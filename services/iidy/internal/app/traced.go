package app

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
)

// traced is the port with a span around each call.
type traced struct {
	*telemetry.Operations

	next httpapi.Lists
}

// Get implements httpapi.Lists.
func (t traced) Get(ctx context.Context, list attempt.List, item attempt.Item) (attempts int64, err error) {
	ctx, end := t.Start(ctx, "iidy.get")
	defer end(&err)
	return t.next.Get(ctx, list, item)
}

// Exists implements httpapi.Lists.
func (t traced) Exists(ctx context.Context, list attempt.List) (there bool, err error) {
	ctx, end := t.Start(ctx, "iidy.exists")
	defer end(&err)
	return t.next.Exists(ctx, list)
}

// Page implements httpapi.Lists.
func (t traced) Page(ctx context.Context, list attempt.List, after string, count int) (page []attempt.Entry, err error) {
	ctx, end := t.Start(ctx, "iidy.page")
	defer end(&err)
	return t.next.Page(ctx, list, after, count)
}

// Count implements httpapi.Lists.
func (t traced) Count(ctx context.Context, list attempt.List) (p attempt.Counts, err error) {
	ctx, end := t.Start(ctx, "iidy.count")
	defer end(&err)
	return t.next.Count(ctx, list)
}

// Claim implements httpapi.Lists.
func (t traced) Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (l attempt.Lease, err error) {
	ctx, end := t.Start(ctx, "iidy.claim")
	defer end(&err)
	return t.next.Claim(ctx, list, count, lease)
}

// Extend implements httpapi.Lists.
func (t traced) Extend(ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration) (n int64, err error) {
	ctx, end := t.Start(ctx, "iidy.extend")
	defer end(&err)
	return t.next.Extend(ctx, list, claim, lease)
}

// Release implements httpapi.Lists.
func (t traced) Release(ctx context.Context, list attempt.List, claim attempt.Claim) (n int64, err error) {
	ctx, end := t.Start(ctx, "iidy.release")
	defer end(&err)
	return t.next.Release(ctx, list, claim)
}

// Apply implements httpapi.Lists.
func (t traced) Apply(
	ctx context.Context, change attempt.Change, list attempt.List, item attempt.Item, claim attempt.Claim,
) (n int64, err error) {
	ctx, end := t.Start(ctx, nameOf(change))
	defer end(&err)
	return t.next.Apply(ctx, change, list, item, claim)
}

// Abandon implements httpapi.Lists.
func (t traced) Abandon(ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim) (n int64, err error) {
	ctx, end := t.Start(ctx, "iidy.abandon")
	defer end(&err)
	return t.next.Abandon(ctx, list, attempts, claim)
}

// ApplyBatch implements httpapi.Lists.
func (t traced) ApplyBatch(
	ctx context.Context, change attempt.Change, list attempt.List, source attempt.Source, claim attempt.Claim,
) (n int64, err error) {
	ctx, end := t.Start(ctx, nameOf(change)+"_batch")
	defer end(&err)
	return t.next.ApplyBatch(ctx, change, list, source, claim)
}

// nameOf names a change's span, from a closed list.
func nameOf(change attempt.Change) string { return "iidy." + change.String() }
