package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config names the service and configures its telemetry.
type Config struct {
	// Service is the name of the service, such as "counts"; required.
	Service string
	// Version is the version of the binary, from lifecycle.Version.
	Version string
	// LogLevel is debug, info, warn or error. Defaults to info.
	LogLevel string
	// LogFormat is json or text. Defaults to json.
	LogFormat string
	// Output receives the log; nil selects standard error.
	Output io.Writer
	// Environ is the environment of the process, from config.Environ. New reads from it whether to trace and with which
	// protocol. The SDK reads the other OTEL_* variables from the process, so the two should not differ. Nil means no
	// variables, hence no tracing.
	Environ map[string]string
	// CaptureGlobals redirects log, slog's default logger and OpenTelemetry's loggers to this logger, and drops gRPC's
	// logs. It is for main: the last caller in a process wins, and it stays in effect after Shutdown.
	CaptureGlobals bool
}

// Telemetry holds the logger, the registry and the tracer provider of one service.
type Telemetry struct {
	logger   *slog.Logger
	registry *prometheus.Registry
	// propagator reads and writes the ids of spans in headers.
	propagator propagation.TextMapPropagator
	sdk        *sdktrace.TracerProvider // nil when tracing is off
}

// New builds the telemetry of a service. It fails, with a sentence that names the variable, on an invalid log level, or
// on an invalid OTEL_* variable that it reads itself. It opens no connections: without its collector, a replica loses
// spans and writes log lines, but it starts.
func New(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Output == nil {
		cfg.Output = os.Stderr
	}

	handler, err := newHandler(cfg)
	if err != nil {
		return nil, err
	}
	traces, err := readTraceSettings(cfg.Environ)
	if err != nil {
		return nil, err
	}

	propagator, err := newPropagator(cfg.Environ)
	if err != nil {
		return nil, err
	}

	spans := newSpanCounter()
	t := &Telemetry{logger: slog.New(handler), registry: newRegistry(cfg, spans), propagator: propagator}

	// Before the first exporter exists: gRPC's logger must not change while it is used.
	if cfg.CaptureGlobals {
		captureGlobals(context.WithoutCancel(ctx), t.logger)
	}

	if traces.noEndpoint {
		t.logger.WarnContext(ctx, "OTEL_TRACES_EXPORTER=otlp has no effect: set OTEL_EXPORTER_OTLP_ENDPOINT to send traces")
	}

	if traces.enabled {
		t.sdk, err = newTracerProvider(ctx, cfg, traces, spans)
		if err != nil {
			return nil, fmt.Errorf("telemetry: tracing: %w", err)
		}
	}

	return t, nil
}

// Logger returns the service's logger. Pass it the request's context, else the line lacks the ids of the trace.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Registry returns the service's registry of metrics.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// Propagator returns the propagator that OTEL_PROPAGATORS selects; by default it reads and writes traceparent and
// tracestate. It exists also when tracing is off.
func (t *Telemetry) Propagator() propagation.TextMapPropagator { return t.propagator }

// TracerProvider returns the provider of tracers: a no-op if tracing is off, never nil.
func (t *Telemetry) TracerProvider() trace.TracerProvider {
	if t.sdk == nil {
		return noop.NewTracerProvider()
	}
	return t.sdk
}

// Tracing returns the tracer provider if tracing is on, else nil. It is for packages that leave out their
// instrumentation if tracing is off.
func (t *Telemetry) Tracing() trace.TracerProvider {
	if t.sdk == nil {
		return nil
	}
	return t.sdk
}

// Shutdown sends the waiting spans, until ctx ends, and stops the exporter. Logger and registry stay usable. A second
// call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	if err := t.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: send the last spans: %w", err)
	}
	return nil
}
