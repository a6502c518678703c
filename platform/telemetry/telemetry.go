package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config says which service is observed and how.
type Config struct {
	// Service is the name of the service, for example "counts"; required.
	Service string
	// Version is the version of the binary, as lifecycle.Version returns it.
	Version string
	// LogLevel is debug, info, warn or error; empty stands for info.
	LogLevel string
	// LogFormat is json or text; empty stands for json.
	LogFormat string
	// Output gets the log; nil stands for standard error.
	Output io.Writer
	// Environ is the environment of the process, as config.Environ returns it: New reads from it whether there is tracing
	// and by which protocol. The SDK reads the other OTEL_* variables from the process, so the two should not differ. Nil
	// means no variables, hence no tracing.
	Environ map[string]string
	// CaptureGlobals sends what is written through log, slog's default logger and OpenTelemetry's loggers to this logger,
	// and drops gRPC's. It is for main: the last caller in a process wins, and it stays in place after Shutdown.
	CaptureGlobals bool
}

// Telemetry holds the logger, the registry and the tracer provider of one service.
type Telemetry struct {
	logger   *slog.Logger
	registry *prometheus.Registry
	tracing  trace.TracerProvider
	sdk      *sdktrace.TracerProvider // nil when tracing is off
}

// New builds the telemetry of a service. It fails, with a sentence that names the variable, on a log level, a log
// format or an OTEL_* variable that it reads itself and does not understand. It opens no connections: a collector
// that is away costs spans and log lines, never the start.
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
	spans := newSpanCounter()
	registry, err := newRegistry(cfg, spans)
	if err != nil {
		return nil, fmt.Errorf("telemetry: register metrics: %w", err)
	}
	t := &Telemetry{logger: slog.New(handler), registry: registry, tracing: noop.NewTracerProvider()}
	if cfg.CaptureGlobals { // before the first exporter exists: gRPC's logger must not change under it
		captureGlobals(context.WithoutCancel(ctx), t.logger)
	}
	if traces.noEndpoint {
		t.logger.WarnContext(ctx, "OTEL_TRACES_EXPORTER=otlp has no effect: set OTEL_EXPORTER_OTLP_ENDPOINT to send traces")
	}
	if traces.enabled {
		if t.sdk, err = newTracerProvider(ctx, cfg, traces, spans); err != nil {
			return nil, fmt.Errorf("telemetry: tracing: %w", err)
		}
		t.tracing = t.sdk
	}
	return t, nil
}

// Logger returns the service's logger. Call its methods with the request's context, else the line lacks the trace's
// ids.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Registry returns the service's own registry of metrics.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// TracerProvider returns the maker of tracers: a no-op when tracing is off, never nil.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.tracing }

// Tracing returns the tracer provider where tracing is on, else nil: what platform's packages take that leave their
// instrumentation out altogether when it is off.
func (t *Telemetry) Tracing() trace.TracerProvider {
	if t.sdk == nil {
		return nil
	}
	return t.tracing
}

// Shutdown sends the spans that are still waiting and stops the exporter, until ctx ends. Logger and registry stay
// usable; a second call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	if err := t.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: send the last spans: %w", err)
	}
	return nil
}
