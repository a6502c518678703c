package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/telemetry"
)

func TestMain(m *testing.M) {
	if config.Environ()[childEnv] != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// build makes a telemetry that writes its log to the buffer.
func build(t *testing.T, cfg telemetry.Config) (*telemetry.Telemetry, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	cfg.Service, cfg.Version, cfg.Output = "counts", "v1.2.3", &out
	tel, err := telemetry.New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := tel.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return tel, &out
}

// lines decodes a log of JSON lines.
func lines(t *testing.T, out *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q is no line of JSON: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// underSpan is a context as a request has it that came with a traceparent.
func underSpan(t *testing.T) context.Context {
	t.Helper()
	carrier := propagation.MapCarrier{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	return propagation.TraceContext{}.Extract(t.Context(), carrier)
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	tel, out := build(t, telemetry.Config{})
	tel.Logger().DebugContext(t.Context(), "not at this level")
	tel.Logger().InfoContext(t.Context(), "two\nlines", slog.Int("n", 1))
	tel.Logger().InfoContext(underSpan(t), "traced")

	got := lines(t, out)
	if len(got) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(got), out)
	}
	for key, want := range map[string]any{
		"msg": "two\nlines", "level": "INFO", "service": "counts", "version": "v1.2.3", "n": 1.0,
	} {
		if got[0][key] != want {
			t.Errorf("%s is %v, want %v", key, got[0][key], want)
		}
	}
	if _, has := got[0]["trace_id"]; has {
		t.Errorf("a line without a span has a trace_id: %v", got[0])
	}
	if m := got[1]; m["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || m["span_id"] != "b7ad6b7169203331" {
		t.Errorf("ids of the span are missing: %v", m)
	}
	for _, m := range got {
		stamp, _ := m["time"].(string)
		when, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || !strings.HasSuffix(stamp, "Z") || when.Nanosecond()%1000 != 0 {
			t.Errorf("time %q is not RFC 3339 in UTC with microseconds (%v)", stamp, err)
		}
	}
}

func TestTextLog(t *testing.T) {
	t.Parallel()
	tel, out := build(t, telemetry.Config{LogFormat: "text", LogLevel: "error"})
	tel.Logger().WarnContext(t.Context(), "not at this level")
	tel.Logger().ErrorContext(underSpan(t), "broken")
	if _, line, _ := strings.Cut(out.String(), " "); !strings.HasPrefix(line,
		"level=ERROR msg=broken service=counts version=v1.2.3 trace_id=0af76519") {
		t.Errorf("log:\n%s", out)
	}
}

// A bad value of what New reads stops the start; an endpoint, which may hold a password, is not repeated.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const endpoint, protocol = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
	for want, cfg := range map[string]telemetry.Config{
		`LOG_LEVEL: slog: level string "loud": unknown name`:     {LogLevel: "loud"},
		`OTEL_SDK_DISABLED "yes" is not true or false`:           environ("OTEL_SDK_DISABLED", "yes"),
		`OTEL_PROPAGATORS: unknown propagator: zipkin`:           environ("OTEL_PROPAGATORS", "b3,zipkin"),
		`OTEL_TRACES_EXPORTER "jaeger" is not otlp or none`:      environ("OTEL_TRACES_EXPORTER", "jaeger"),
		endpoint + ` is not a URL such as http://collector:4318`: environ(endpoint, "ftp://u:hunter2@c"),
		endpoint + ` is not a URL such as http`:                  environ(endpoint, "hunter2:%zz"),
		endpoint + ` is not a URL such as`:                       environ(endpoint, "http://u:hunter2@c:4318"),
		`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not a URL`:        environ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "hunter2"),
		protocol + ` "http/json" is not grpc or http/protobuf`:   environ(endpoint, "http://c:4318", protocol, "http/json"),
		`OTEL_BSP_MAX_QUEUE_SIZE "0" is not a whole number`: environ(
			endpoint, "http://c", "OTEL_BSP_MAX_QUEUE_SIZE", "0"),
		`OTLP_TRACES_PROTOCOL "x" is not grpc or http/protobuf`: environ(
			endpoint, "http://c", protocol, "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "x"),
	} {
		_, err := telemetry.New(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

// environ makes a configuration with these variables, given as name, value, name, value.
func environ(pairs ...string) telemetry.Config {
	cfg := telemetry.Config{Service: "counts", Environ: map[string]string{}}
	for pair := range slices.Chunk(pairs, 2) {
		cfg.Environ[pair[0]] = pair[1]
	}
	return cfg
}

func TestWhenThereIsTracing(t *testing.T) {
	t.Parallel()
	const endpoint, url = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"
	for name, tt := range map[string]struct {
		cfg     telemetry.Config
		enabled bool
	}{
		"nothing set":          {telemetry.Config{}, false},
		"endpoint":             {environ(endpoint, url), true},
		"endpoint of traces":   {environ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url), true},
		"endpoint and otlp":    {environ(endpoint, url, "OTEL_TRACES_EXPORTER", "otlp"), true},
		"endpoint and none":    {environ(endpoint, url, "OTEL_TRACES_EXPORTER", "none"), false},
		"disabled":             {environ(endpoint, url, "OTEL_SDK_DISABLED", "TRUE"), false},
		"not disabled":         {environ(endpoint, url, "OTEL_SDK_DISABLED", "false"), true},
		"blank":                {environ(endpoint, " "), false},
		"protocol alone":       {environ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), false},
		"disabled, all wrong":  {environ("OTEL_SDK_DISABLED", "true", "OTEL_TRACES_EXPORTER", "jaeger"), false},
		"otlp without address": {environ("OTEL_TRACES_EXPORTER", "otlp"), false},
	} {
		tel, out := build(t, tt.cfg)
		_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "x", trace.WithNewRoot())
		if (tel.Tracing() != nil) != tt.enabled || span.IsRecording() != tt.enabled {
			t.Errorf("%s: tracing is on: %t", name, span.IsRecording())
		}
		if warned := strings.Contains(out.String(), "has no effect"); warned != (name == "otlp without address") {
			t.Errorf("%s: warned: %t, log:\n%s", name, warned, out)
		}
	}
}

// Two services of one process have a registry each.
func TestRegistry(t *testing.T) {
	t.Parallel()
	for range 2 {
		tel, _ := build(t, telemetry.Config{})
		n, err := testutil.GatherAndCount(tel.Registry(), "go_goroutines", "rowlock_trace_spans_total", "rowlock_build_info")
		if n != 5 || err != nil {
			t.Errorf("%d series of every process's metrics (%v), want 5", n, err)
		}
	}
}

// A request joins its caller's trace as OTEL_PROPAGATORS says, also if tracing is off. Baggage is accepted, and never
// read.
func TestPropagators(t *testing.T) {
	t.Parallel()
	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	headers := map[string]propagation.HeaderCarrier{
		"w3c": {"Traceparent": {"00-" + traceID + "-" + spanID + "-00"}}, "b3": {"B3": {traceID + "-" + spanID + "-0"}},
	}
	for propagators, joins := range map[string]string{
		"":                       "w3c",
		"tracecontext,baggage":   "w3c",
		"b3":                     "b3",
		"b3multi, tracecontext,": "w3c b3",
		"none":                   "",
		"baggage":                "",
	} {
		tel, _ := build(t, environ("OTEL_PROPAGATORS", propagators))
		for name, header := range headers {
			joined := trace.SpanContextFromContext(tel.Propagator().Extract(t.Context(), header))
			if got, want := joined.TraceID().String() == traceID, strings.Contains(joins, name); got != want {
				t.Errorf("OTEL_PROPAGATORS=%q: a request with %s joined its trace: %t, want %t", propagators, name, got, want)
			}
		}
	}
}
