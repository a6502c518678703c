package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// traceSettings holds the settings that the SDK leaves to the program.
type traceSettings struct {
	enabled    bool
	noEndpoint bool // OTEL_TRACES_EXPORTER requests traces, but no endpoint is set
	grpc       bool // else http/protobuf, the specification's default
	queueSize  int
}

// readTraceSettings reads whether to trace, to which endpoint and with which protocol, as the OpenTelemetry
// specification defines the variables (configuration/sdk-environment-variables, protocol/exporter). Blank means unset.
// It refuses invalid values of only these variables: the SDK reads the others. No error repeats an endpoint, which may
// contain a password.
func readTraceSettings(environ map[string]string) (s traceSettings, err error) {
	first := func(names ...string) (name, value string) {
		for _, name = range names {
			value = strings.TrimSpace(environ[name])
			if value != "" {
				break
			}
		}
		return name, value
	}

	name, disabled := first("OTEL_SDK_DISABLED")
	switch strings.ToLower(disabled) {
	case "true":
		return s, nil
	case "", "false":
	default:
		return s, fmt.Errorf("%s %q is not true or false", name, disabled)
	}

	exporter, wanted := first("OTEL_TRACES_EXPORTER")
	endpoint, to := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch {
	case wanted != "" && wanted != "otlp" && wanted != "none":
		return s, fmt.Errorf("%s %q is not otlp or none", exporter, wanted)
	case to == "" || wanted == "none":
		return traceSettings{noEndpoint: wanted == "otlp"}, nil
	}

	if u, err := url.Parse(to); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return s, fmt.Errorf("%s is not a URL such as http://collector:4318, without user and password", endpoint)
	}

	name, protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if protocol != "" && protocol != "grpc" && protocol != "http/protobuf" {
		return s, fmt.Errorf("%s %q is not grpc or http/protobuf", name, protocol)
	}

	s = traceSettings{enabled: true, grpc: protocol == "grpc", queueSize: sdktrace.DefaultMaxQueueSize}
	if name, size := first("OTEL_BSP_MAX_QUEUE_SIZE"); size != "" {
		s.queueSize, err = strconv.Atoi(size)
		if err != nil || s.queueSize < 1 {
			return s, fmt.Errorf("%s %q is not a whole number of at least 1", name, size)
		}
	}
	return s, nil
}

// newPropagator returns the propagator of the comma-separated names in OTEL_PROPAGATORS, which default to tracecontext.
// It leaves baggage out: no code reads it, and the SDK logs any that it cannot parse. It fails on an unknown name.
func newPropagator(environ map[string]string) (propagation.TextMapPropagator, error) {
	const name = "OTEL_PROPAGATORS"
	list := cmp.Or(strings.TrimSpace(environ[name]), "tracecontext")
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	names = slices.DeleteFunc(names, func(name string) bool { return name == "baggage" })

	propagator, err := autoprop.TextMapPropagator(names...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; known are tracecontext, baggage, b3, b3multi, jaeger, xray, ottrace, none", name, err)
	}
	return propagator, nil
}

// newTracerProvider returns the provider that sends to the endpoint in the OTEL_EXPORTER_OTLP_* variables. It opens no
// connections.
func newTracerProvider(
	ctx context.Context, cfg Config, s traceSettings, counter *prometheus.CounterVec,
) (*sdktrace.TracerProvider, error) {
	res, err := newResource(ctx, cfg)
	if err != nil {
		return nil, err
	}

	var client otlptrace.Client
	if s.grpc {
		client = otlptracegrpc.NewClient()
	} else {
		client = otlptracehttp.NewClient()
	}

	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("create the OTLP exporter: %w", err)
	}
	return NewProvider(withoutIdlePolls(newCountedSpans(exporter, s.queueSize, counter)), sdktrace.WithResource(res)), nil
}

// NewProvider returns a provider with the services' settings. It records no event for a panic: the SDK's would contain
// the panic's value, which may quote a client's input. The log has the panic with its stack.
func NewProvider(processor sdktrace.SpanProcessor, options ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	options = append(options, sdktrace.WithSpanProcessor(processor), sdktrace.WithoutPanicRecording())
	return sdktrace.NewTracerProvider(options...)
}

// newResource describes this replica. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last, so they win.
func newResource(ctx context.Context, cfg Config) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithService(), // a service.instance.id per process, and a name that the next line replaces
		resource.WithAttributes(semconv.ServiceName(cfg.Service), semconv.ServiceVersion(cfg.Version)),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe this process (OTEL_RESOURCE_ATTRIBUTES is key=value,key=value): %w", err)
	}
	return res, nil
}
