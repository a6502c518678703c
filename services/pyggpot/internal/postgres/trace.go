package postgres

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// recordedSpan returns the span of ctx, or nil when it is not recorded.
func recordedSpan(ctx context.Context) trace.Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// linkGroup links the request's span to that of the group that ctx is in, if that is in another trace: coalesce knows
// the first caller of each pot.
func (c *call) linkGroup(ctx context.Context) {
	group := trace.SpanContextFromContext(ctx)
	if c.span != nil && group.IsValid() && c.span.SpanContext().TraceID() != group.TraceID() {
		c.span.AddLink(trace.Link{SpanContext: group})
	}
}

// recordRetry adds an event to the request's span, if it is recorded, that says why its pot is leased again. The
// statements below the group's span show the tries themselves.
func (c *call) recordRetry(err error) {
	if c.span == nil {
		return
	}
	reason := "held"
	switch {
	case errors.Is(err, errLost):
		reason = "lost"
	case errors.Is(err, errUnsure):
		reason = "unsure"
	}
	c.span.AddEvent("lease.retry", trace.WithAttributes(attribute.String("rowlock.lease", reason)))
}
