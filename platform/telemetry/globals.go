package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strings"

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

	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WarnContext(ctx, "opentelemetry", slog.Any("error", err))
	}))
	otel.SetLogger(logr.FromSlogHandler(logger.With(slog.String("logger", "opentelemetry")).Handler()))

	// gRPC is in the process for the OTLP exporter alone, and what matters of
	// it comes back as an error of the exporter. Its own chatter stays out.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, lineWriter{logger: logger}))
}

// lineWriter makes a log record of each line that gRPC writes.
type lineWriter struct{ logger *slog.Logger }

// Write logs p; it never fails.
func (w lineWriter) Write(p []byte) (int, error) {
	line := string(p)
	if _, text, found := strings.Cut(line, "ERROR: "); found { // after the date that gRPC's own logger puts first
		line = text
	}
	w.logger.ErrorContext(context.Background(), "grpc", slog.String("error", strings.TrimSpace(line)))
	return len(p), nil
}
