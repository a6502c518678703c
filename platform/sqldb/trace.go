package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// tracing makes a span of each call to the server that belongs to a recorded
// trace: the statement's text with its placeholders, never a value, and of an
// error its class alone, since the server's sentence may quote one.
type tracing struct {
	tracer trace.Tracer
	common trace.SpanStartEventOption
}

// newTracing returns nil without a provider.
func newTracing(s Settings, kind Engine, database string) *tracing {
	if s.TracerProvider == nil {
		return nil
	}
	system := semconv.DBSystemNamePostgreSQL
	if kind == MySQL {
		system = semconv.DBSystemNameMySQL
	}
	common := []attribute.KeyValue{system, semconv.DBClientConnectionPoolName(s.Name)}
	if database != "" {
		common = append(common, semconv.DBNamespace(database))
	}
	return &tracing{
		tracer: s.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/sqldb"),
		common: trace.WithAttributes(common...),
	}
}

// startQuery is start with the statement's summary as the name, and its text.
func (t *tracing) startQuery(ctx context.Context, query string) trace.Span {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	words := strings.Fields(query)
	summary := summarize(words)
	return t.start(ctx, summary, semconv.DBQuerySummary(summary), semconv.DBQueryText(queryText(words)))
}

// start begins the span of one call, or returns nil when the trace is not recorded.
//
//nolint:spancheck // endSpan ends it
func (t *tracing) start(ctx context.Context, name string, attributes ...attribute.KeyValue) trace.Span {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), t.common,
		trace.WithAttributes(attributes...))
	return span
}

// endSpan ends a span of start, which may be nil. A lock that did not come free in time
// sets error.type but not the error status: group commit waits for locks briefly and
// then runs without them, and where it fails a request the parent spans say so. Nor
// does a cancelled ctx set the error status.
func endSpan(ctx context.Context, span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil && !errors.Is(err, driver.ErrSkip) {
		kind := Connection // driver.ErrBadConn, which Classify leaves to database/sql
		if e := Classify(err, false); e != nil {
			kind = e.Reason
			if e.SQLState != "" {
				span.SetAttributes(semconv.DBResponseStatusCode(e.SQLState))
			}
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(kind.String()))
		if kind != LockTimeout && !errors.Is(ctx.Err(), context.Canceled) {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}
