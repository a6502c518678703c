package groupcommit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A group's span is a child of the first request in it whose trace is recorded, and
// has links to all recorded ones, that one included. Requests of other traces get a
// link back, with the time they had waited, so that each trace leads to the statement
// that carried its request. A group without a recorded request has no span.

// maxLinks bounds a group's links; it is the SDK's own default. The attribute
// rowlock.batch.requests counts the omitted ones too.
const maxLinks = 128

// startSpan begins the span of a group that is about to run, or returns nil when none
// of its requests is recorded.
func (c *Committer[K, Q, R]) startSpan(
	ctx context.Context, pass Attempt, group []*call[K, Q, R],
) (context.Context, trace.Span) {
	var links []trace.Link
	var recorded []*call[K, Q, R]
	for _, w := range group {
		if w.span != nil {
			recorded = append(recorded, w)
			links = append(links, trace.Link{SpanContext: w.span.SpanContext()})
		}
	}
	if len(recorded) == 0 {
		return ctx, nil
	}

	ctx, span := c.tracer.Start(trace.ContextWithSpan(ctx, recorded[0].span), "batch "+c.cfg.Name,
		trace.WithLinks(links[:min(len(links), maxLinks)]...),
		trace.WithAttributes(attribute.Int("rowlock.batch.requests", len(group)),
			attribute.Int("rowlock.batch.requests_recorded", len(recorded)),
			attribute.Bool("rowlock.batch.skip_locked", pass.SkipLocked)))
	own, now := span.SpanContext(), time.Now()
	for _, w := range recorded {
		if w.span.SpanContext().TraceID() != own.TraceID() {
			wait := attribute.Float64("rowlock.batch.wait_ms", float64(now.Sub(w.since).Microseconds())/1000)
			w.span.AddLink(trace.Link{SpanContext: own, Attributes: []attribute.KeyValue{wait}})
		}
	}
	return ctx, span
}

// endSpan ends a group's span, which may be nil. A lock that did not come free, a request that is at fault for the
// others, and rows left out because they are locked do not set the error status: the requests are sent again.
func endSpan[R any](span trace.Span, answers []*R, err error) {
	if span == nil {
		return
	}
	locked := 0
	for _, a := range answers {
		if a == nil {
			locked++
		}
	}

	outcome := "done"
	switch {
	case isLocked(err):
		outcome = "lock_wait"
	case oneAtFault(err):
		outcome = "split"
	case err != nil:
		outcome = "error"
		span.SetStatus(codes.Error, "") // the sentence may quote what a client sent
	case locked > 0:
		outcome = "partial"
		if locked == len(answers) {
			outcome = "locked"
		}
		span.SetAttributes(attribute.Int("rowlock.batch.locked", locked))
	}
	span.SetAttributes(attribute.String("rowlock.batch.outcome", outcome))
	span.End()
}
