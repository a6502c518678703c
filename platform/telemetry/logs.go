package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// newHandler makes the handler behind the service's logger.
func newHandler(cfg Config) (slog.Handler, error) {
	level := slog.LevelInfo
	switch cfg.LogLevel {
	case "debug":
		level = slog.LevelDebug
	case "info", "":
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, fmt.Errorf("telemetry: LOG_LEVEL %q is not debug, info, warn or error", cfg.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch cfg.LogFormat {
	case "json", "":
		handler = slog.NewJSONHandler(cfg.output(), opts)
	case "text":
		handler = slog.NewTextHandler(cfg.output(), opts)
	default:
		return nil, fmt.Errorf("telemetry: LOG_FORMAT %q is not json or text", cfg.LogFormat)
	}
	handler = handler.WithAttrs([]slog.Attr{
		slog.String("service", cfg.Service),
		slog.String("version", cfg.Version),
	})
	return newTraceHandler(handler), nil
}

// traceHandler adds the ids of the context's span to a record, at the top level
// even inside a group: that is where every log search looks for trace_id.
type traceHandler struct {
	inner slog.Handler // with all groups and attributes: for records without a span
	top   slog.Handler // without what came with or after the first group
	later []func(slog.Handler) slog.Handler
}

func newTraceHandler(h slog.Handler) *traceHandler { return &traceHandler{inner: h, top: h} }

// Enabled is that of the handler below.
func (h *traceHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle writes the record in UTC and with the span of ctx, when there is one.
func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	// Replicas on machines in several zones are read side by side.
	r.Time = r.Time.UTC().Truncate(time.Microsecond)

	target := h.inner
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		ids := []slog.Attr{
			slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()),
		}
		target = h.top.WithAttrs(ids)
		for _, apply := range h.later {
			target = apply(target)
		}
	}
	if err := target.Handle(ctx, r); err != nil {
		return fmt.Errorf("telemetry: write log record: %w", err)
	}
	return nil
}

// WithAttrs returns a handler that adds attrs to every record.
func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.later) == 0 {
		return newTraceHandler(h.top.WithAttrs(attrs))
	}
	return h.then(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

// WithGroup returns a handler that puts what follows into a group.
func (h *traceHandler) WithGroup(name string) slog.Handler {
	if name == "" { // slog.Handler: an empty name changes nothing
		return h
	}
	return h.then(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h *traceHandler) then(apply func(slog.Handler) slog.Handler) slog.Handler {
	later := make([]func(slog.Handler) slog.Handler, len(h.later), len(h.later)+1)
	copy(later, h.later)
	return &traceHandler{inner: apply(h.inner), top: h.top, later: append(later, apply)}
}
