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

// captureGlobals sends what libraries write to the process-wide loggers to logger. ctx must not end before the process.
func captureGlobals(ctx context.Context, logger *slog.Logger) {
	// slog.SetDefault redirects the log package too, whose lines have no level: they become warnings.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(logger)
	otel.SetErrorHandler(errorHandler(ctx, logger))
	otel.SetLogger(logr.FromSlogHandler(withoutText{logger.With(slog.String("logger", "opentelemetry")).Handler()}))
	silenceGRPC()
}

// silenceGRPC drops what gRPC logs: only the OTLP exporter uses it here, and its failures reach the error handler. It
// runs once, because gRPC reads its logger without a lock.
var silenceGRPC = sync.OnceFunc(func() { //nolint:gochecknoglobals // gRPC has one logger per process
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// failureEvery is the shortest time between two log lines about failures of OpenTelemetry.
const failureEvery = 30 * time.Second

// errorHandler logs OpenTelemetry's errors. A collector that is away fails hundreds of batches a second on a busy
// replica, so one line in failureEvery is written.
func errorHandler(ctx context.Context, logger *slog.Logger) otel.ErrorHandlerFunc {
	sparse := NewSparse(1, failureEvery)
	return func(err error) {
		if omitted, ok := sparse.Allow(); ok {
			logger.WarnContext(ctx, "opentelemetry", slog.Any("error", err), slog.Int("omitted", omitted))
		}
	}
}

// withoutText drops the attributes of a record that are not numbers. The SDK logs a variable that it cannot read with
// its value, which may be the token of a collector.
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
	return h.Handler.Handle(ctx, kept) //nolint:wrapcheck // of this package
}

// WithAttrs drops attrs.
func (h withoutText) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup returns a handler that puts what follows into a group.
func (h withoutText) WithGroup(name string) slog.Handler {
	return withoutText{h.Handler.WithGroup(name)}
}
