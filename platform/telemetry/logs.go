package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// newHandler returns the handler behind the service's logger. It fails on an unknown level.
func newHandler(cfg Config) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(cfg.LogLevel, "info"))); err != nil {
		return nil, fmt.Errorf("telemetry: LOG_LEVEL: %w", err)
	}

	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewJSONHandler(cfg.Output, opts)
	if cfg.LogFormat == "text" {
		handler = slog.NewTextHandler(cfg.Output, opts)
	}

	return traceHandler{handler.WithAttrs([]slog.Attr{
		slog.String("service", cfg.Service), slog.String("version", cfg.Version),
	})}, nil
}

// traceHandler writes times in UTC and adds the ids of the context's span to each record.
type traceHandler struct{ slog.Handler }

// Handle writes the record. Times are in UTC, because logs from several zones are read side by side.
func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC().Truncate(time.Microsecond)
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attrs to every record.
func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts later attributes into a group, including the ids of the span.
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
