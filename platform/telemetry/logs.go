package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// newHandler returns the handler behind the service's logger. It fails on a level or a format that it does not know.
func newHandler(cfg Config) (slog.Handler, error) {
	levels := map[string]slog.Level{
		"": slog.LevelInfo, "info": slog.LevelInfo,
		"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, known := levels[cfg.LogLevel]
	if !known {
		return nil, fmt.Errorf("telemetry: LOG_LEVEL %q is not debug, info, warn or error", cfg.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch cfg.LogFormat {
	case "json", "":
		handler = slog.NewJSONHandler(cfg.Output, opts)
	case "text":
		handler = slog.NewTextHandler(cfg.Output, opts)
	default:
		return nil, fmt.Errorf("telemetry: LOG_FORMAT %q is not json or text", cfg.LogFormat)
	}
	return traceHandler{handler.WithAttrs([]slog.Attr{
		slog.String("service", cfg.Service), slog.String("version", cfg.Version),
	})}, nil
}

// traceHandler writes times in UTC and adds the ids of the context's span to a record.
type traceHandler struct{ slog.Handler }

// Handle writes the record. Times are in UTC, because logs of replicas in several zones are read side by side.
func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC().Truncate(time.Microsecond)
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r) //nolint:wrapcheck // the handler is slog's own
}

// WithAttrs returns a handler that adds attrs to every record.
func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts what follows into a group, the ids of the span included.
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
