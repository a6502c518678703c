package postgres

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// noteRetry tells the request's span, if there is one, why its change is tried
// again: the statements below it show the tries, and this what was in the way.
func noteRetry(ctx context.Context, err error) {
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
