package postgres

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// recordRetry adds an event to the request's span, if it has one, that says why its change is tried again. The
// statements below the span show the tries themselves.
func recordRetry(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	reason := "held"
	switch {
	case errors.Is(err, errLost):
		reason = "lost"
	case errors.Is(err, errUnsure):
		reason = "unsure"
	}
	span.AddEvent("lease.retry", trace.WithAttributes(attribute.String("rowlock.lease", reason)))
}
