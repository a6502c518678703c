package telemetry

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The values of OTEL_EXPORTER_OTLP_PROTOCOL that have an exporter here. The
// specification names http/protobuf as the default.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// traceDecision is what the OTEL_* variables ask for.
type traceDecision struct {
	enabled    bool
	noEndpoint bool // wanted, but there is nowhere to send to: worth a warning
	protocol   string
}

// traceSettings reads the variables that the SDK leaves to the program:
// whether there is tracing at all, where it goes and by which protocol. The
// names and their meaning are those of the OpenTelemetry specification
// (configuration/sdk-environment-variables and protocol/exporter). The rest,
// from sampler to headers, is read by the SDK, and only checked here.
func traceSettings(env environ) (traceDecision, error) {
	const disabled = "OTEL_SDK_DISABLED"
	switch value := env.get(disabled); {
	case strings.EqualFold(value, "true"):
		return traceDecision{}, nil
	case value != "" && !isBool(value):
		return traceDecision{}, fmt.Errorf("%s %q is not true or false", disabled, value)
	}
	_, endpoint := env.first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

	switch exporter := env.get("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return traceDecision{}, nil
	case "":
	case "otlp":
		if endpoint == "" {
			return traceDecision{noEndpoint: true}, nil
		}
	default:
		return traceDecision{}, fmt.Errorf("OTEL_TRACES_EXPORTER %q is not otlp or none", exporter)
	}
	if endpoint == "" {
		return traceDecision{}, nil
	}
	if err := env.check(); err != nil {
		return traceDecision{}, err
	}
	name, protocol := env.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch protocol {
	case "":
		protocol = protocolHTTP
	case protocolHTTP, protocolGRPC:
	default:
		return traceDecision{}, fmt.Errorf("%s %q is not %s or %s", name, protocol, protocolGRPC, protocolHTTP)
	}
	return traceDecision{enabled: true, protocol: protocol}, nil
}

// newTracerProvider makes the provider that sends to the endpoint of the
// OTEL_EXPORTER_OTLP_* variables. Making it opens no connection.
func newTracerProvider(ctx context.Context, cfg Config, protocol string, counters spanCounters) (*sdktrace.TracerProvider, error) {
	res, err := newResource(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var client otlptrace.Client
	if protocol == protocolGRPC {
		client = otlptracegrpc.NewClient()
	} else {
		client = otlptracehttp.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("make the OTLP exporter (%s): %w", protocol, err)
	}
	queue := newCountedSpans(exporter, cfg.Environ, counters)
	return NewProvider(withoutIdlePolls(queue), sdktrace.WithResource(res)), nil
}

// NewProvider makes a provider of spans as a service has it, for whoever tests what
// stands in them. A panic leaves no event: the SDK's would hold the value, and that
// may quote what a client sent. The log has it, with its stack.
func NewProvider(processor sdktrace.SpanProcessor, options ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(processor), sdktrace.WithoutPanicRecording())...)
}

// newResource describes this replica. What the operator sets by
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES comes last and so wins.
func newResource(ctx context.Context, cfg Config) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithService(), // a service.instance.id for each process, and a name that the next line replaces
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
