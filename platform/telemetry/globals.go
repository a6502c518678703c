package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
)

// captureGlobals routes the process-wide loggers of other people's code into logger.
func captureGlobals(ctx context.Context, logger *slog.Logger) {
	ctx = context.WithoutCancel(ctx) // it lasts as long as the process
	// slog.SetDefault redirects the log package as well, whose lines have no
	// level. They are warnings: who still writes there has something to complain of.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(logger)

	otel.SetErrorHandler(errorHandler(ctx, logger))
	otel.SetLogger(logr.FromSlogHandler(numbersOnly{logger.With(slog.String("logger", "opentelemetry")).Handler()}))

	// gRPC is in the process for the OTLP exporter alone, and what matters of
	// it comes back as an error of the exporter. Its own chatter stays out.
	grpcLines.Store(&lineWriter{logger: logger, sparse: NewSparse(1, failureEvery)})
	setGRPCLogger()
}

// errorHandler logs what OpenTelemetry reports. A collector that is away fails every
// batch of spans, hundreds a second on a busy replica; that it is away need not be said
// as often, nor may what else goes wrong take the place of that line.
func errorHandler(ctx context.Context, logger *slog.Logger) otel.ErrorHandlerFunc {
	exports, others := NewSparse(1, failureEvery), NewSparse(1, failureEvery)
	return func(err error) {
		sparse := others
		if _, is := errors.AsType[exportError](err); is {
			sparse = exports
		}
		if omitted, ok := sparse.Allow(); ok {
			logger.LogAttrs(ctx, slog.LevelWarn, "opentelemetry", failureAttrs(slog.Any("error", err), omitted)...)
		}
	}
}

// grpcLines gets what gRPC logs.
var grpcLines atomic.Pointer[lineWriter] //nolint:gochecknoglobals // gRPC has one logger per process

// setGRPCLogger runs once: gRPC reads its logger without a lock, so that another
// one must not be set while something of the process may use it.
var setGRPCLogger = sync.OnceFunc(func() { //nolint:gochecknoglobals // the same
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, writerFunc(func(p []byte) (int, error) {
		return grpcLines.Load().Write(p)
	})))
})

// writerFunc is a function as an [io.Writer].
type writerFunc func([]byte) (int, error)

// Write calls f.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// failureAttrs are those of a line, which tells how many were left out since the last one.
func failureAttrs(failure slog.Attr, omitted int) []slog.Attr {
	if omitted == 0 {
		return []slog.Attr{failure}
	}
	return []slog.Attr{failure, slog.Int("omitted", omitted)}
}

// failureEvery is how often the failures of the exporter are logged at most.
const failureEvery = 30 * time.Second

// numbersOnly keeps texts out of a record, all but its message. The SDK logs a
// variable that it cannot read with its value, be that a collector's token. New
// refuses those that it knows; this is for the others.
type numbersOnly struct{ slog.Handler }

// Handle writes the record without what may be a secret.
func (h numbersOnly) Handle(ctx context.Context, r slog.Record) error {
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

// WithAttrs returns a handler that leaves them out, whatever they are.
func (h numbersOnly) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup returns a handler that puts what follows into a group.
func (h numbersOnly) WithGroup(name string) slog.Handler {
	return numbersOnly{h.Handler.WithGroup(name)}
}

// lineWriter makes a log record of a line that gRPC writes.
type lineWriter struct {
	logger *slog.Logger
	sparse *Sparse
}

// Write logs p; it never fails.
func (w lineWriter) Write(p []byte) (int, error) {
	line := string(p)
	if _, text, found := strings.Cut(line, "ERROR: "); found { // after the date that gRPC's own logger puts first
		line = text
	}
	// No request failed for it: spans are lost.
	if omitted, ok := w.sparse.Allow(); ok {
		w.logger.LogAttrs(context.Background(), slog.LevelWarn, "grpc", failureAttrs(slog.String("error", strings.TrimSpace(line)), omitted)...)
	}
	return len(p), nil
}
