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

// Config says who is observed and how.
type Config struct {
	// Service is the name of the service, for example "counts"; required.
	Service string
	// Version is the version of the binary, as lifecycle.Version gives it.
	Version string
	// LogLevel is debug, info, warn or error; empty stands for info.
	LogLevel string
	// LogFormat is json or text; empty stands for json.
	LogFormat string
	// Output gets the log; nil stands for standard error.
	Output io.Writer
	// Environ is the environment of the process, as config.Environ gives it:
	// from it New decides whether there is tracing, and by which protocol.
	// The SDK reads the other OTEL_* variables from the process by itself, so
	// the two should not differ. Nil means no variables, hence no tracing.
	Environ map[string]string
	// CaptureGlobals sends what is written through log, slog's default logger,
	// OpenTelemetry's error handler and gRPC's logger to this logger. It is
	// for main: the last process-wide caller wins, and it stays in place after
	// Shutdown, because the last lines count too.
	CaptureGlobals bool
}

// Telemetry holds the logger, the registry and the tracer provider of one service.
type Telemetry struct {
	logger     *slog.Logger
	registry   *prometheus.Registry
	tracing    trace.TracerProvider
	sdk        *sdktrace.TracerProvider // nil when tracing is off
	propagator propagation.TextMapPropagator
}

// New builds the telemetry of a service. It fails, with a sentence that names
// the variable, on a log level, a log format or an OTEL_* variable that it does
// not understand. It does not connect anywhere: a collector that is away costs
// spans and log lines, never the start.
func New(ctx context.Context, cfg Config) (*Telemetry, error) {
	handler, err := newHandler(cfg)
	if err != nil {
		return nil, err
	}
	traces, err := traceSettings(cfg.Environ)
	if err != nil {
		return nil, err
	}
	spans, counters := newSpanCounters()
	registry, err := newRegistry(cfg, spans)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{
		logger:     slog.New(handler),
		registry:   registry,
		tracing:    noop.NewTracerProvider(),
		propagator: propagation.TraceContext{},
	}
	// Before the first exporter exists: gRPC's logger must not change under it.
	if cfg.CaptureGlobals {
		captureGlobals(ctx, t.logger)
	}
	if traces.noEndpoint {
		t.logger.WarnContext(ctx, "OTEL_TRACES_EXPORTER=otlp has no effect: set OTEL_EXPORTER_OTLP_ENDPOINT to send traces")
	}
	if traces.enabled {
		t.sdk, err = newTracerProvider(ctx, cfg, traces.protocol, counters)
		if err != nil {
			return nil, fmt.Errorf("telemetry: tracing: %w", err)
		}
		t.tracing = t.sdk
	}
	return t, nil
}

// Logger is the service's logger. Pass the request's context to it, else the
// line cannot carry the trace.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Registry is the service's own registry of metrics.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// TracerProvider makes tracers; it is a no-op when tracing is off, never nil.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.tracing }

// Tracing is the tracer provider where tracing is on, else nil: what the packages
// of platform want whose instrumentation is left out altogether when it is off.
func (t *Telemetry) Tracing() trace.TracerProvider {
	if t.sdk == nil {
		return nil
	}
	return t.tracing
}

// TracingEnabled says whether spans go anywhere. Code on the hot path asks it
// once, when it is put together, and leaves its instrumentation out when not.
func (t *Telemetry) TracingEnabled() bool { return t.sdk != nil }

// Propagator reads and writes W3C traceparent and tracestate. Not baggage: nobody
// here reads it, and the SDK logs what it cannot parse of it.
func (t *Telemetry) Propagator() propagation.TextMapPropagator { return t.propagator }

// Shutdown sends the spans that are still waiting and stops the exporter, until
// ctx ends. Logger and registry stay usable; a second call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	if err := t.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: send the last spans: %w", err)
	}
	return nil
}

func (c Config) output() io.Writer {
	if c.Output == nil {
		return os.Stderr
	}
	return c.Output
}
