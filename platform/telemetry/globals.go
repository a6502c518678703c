package telemetry

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
)

// captureGlobals redirects the process-wide loggers to logger. ctx must not end before the process.
func captureGlobals(ctx context.Context, logger *slog.Logger) {
	// slog.SetDefault redirects the log package too. Its lines have no level; they become warnings.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(logger)
	otel.SetErrorHandler(errorHandler(ctx, logger))
	otel.SetLogger(logr.FromSlogHandler(withoutText{logger.With(slog.String("logger", "opentelemetry")).Handler()}))
	silenceGRPC()
}

// silenceGRPC drops gRPC's logs: only the OTLP exporter uses gRPC here, and its failures reach the error handler. It
// runs once, because gRPC reads its logger without a lock.
var silenceGRPC = sync.OnceFunc(func() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// failureEvery is the minimum time between two log lines about failures of OpenTelemetry.
const failureEvery = 30 * time.Second

// errorHandler logs OpenTelemetry's errors, one line per failureEvery: without a collector, hundreds of batches a
// second fail on a busy replica.
func errorHandler(ctx context.Context, logger *slog.Logger) otel.ErrorHandlerFunc {
	sparse := NewSparse(1, failureEvery)
	return func(err error) {
		if omitted, ok := sparse.Allow(); ok {
			logger.WarnContext(ctx, "opentelemetry", slog.Any("error", err), slog.Int("omitted", omitted))
		}
	}
}

// withoutText drops all attributes of a record that are not numbers or bools. The SDK logs variables that it cannot
// read with their values, which may contain a collector's token.
type withoutText struct{ slog.Handler }

// Handle writes the record with its message and its numbers.
func (h withoutText) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Value.Kind() {
		case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool, slog.KindDuration:
			kept.AddAttrs(a)
		default:
		}
		return true
	})
	return h.Handler.Handle(ctx, kept)
}

// WithAttrs drops attrs.
func (h withoutText) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup returns a handler that puts later attributes into a group.
func (h withoutText) WithGroup(name string) slog.Handler {
	return withoutText{h.Handler.WithGroup(name)}
}
