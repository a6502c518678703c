package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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
	if m := got[0]; m["msg"] != "two\nlines" || m["level"] != "INFO" || m["service"] != "counts" || m["version"] != "v1.2.3" || m["n"] != 1.0 {
		t.Errorf("line %v", m)
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

func TestTraceIDStaysAtTheTopOfGroups(t *testing.T) {
	t.Parallel()
	tel, out := build(t, telemetry.Config{LogLevel: "debug"})
	base := tel.Logger().With("a", 1).WithGroup("").WithGroup("db")
	one := base.With("b", 2)
	two := base.WithGroup("pool").With("c", 3) // from the same parent: the two must not mix
	for _, log := range []*slog.Logger{one, two} {
		log.DebugContext(underSpan(t), "x", "d", 4)
		log.DebugContext(t.Context(), "x", "d", 4)
	}
	for i, want := range []string{
		`"a":1,"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331","db":{"b":2,"d":4}}`,
		`"a":1,"db":{"b":2,"d":4}}`,
		`"a":1,"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331","db":{"pool":{"c":3,"d":4}}}`,
		`"a":1,"db":{"pool":{"c":3,"d":4}}}`,
	} {
		if line := strings.Split(out.String(), "\n")[i]; !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %s, want it to end with %s", i, line, want)
		}
	}
}

func TestTextLog(t *testing.T) {
	t.Parallel()
	tel, out := build(t, telemetry.Config{LogFormat: "text", LogLevel: "error"})
	tel.Logger().WarnContext(t.Context(), "not at this level")
	tel.Logger().ErrorContext(underSpan(t), "broken")
	if got := out.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "level=ERROR msg=broken service=counts version=v1.2.3 trace_id=0af76519") {
		t.Errorf("log:\n%s", got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tt := range map[string]struct {
		cfg  telemetry.Config
		want string
	}{
		"level":    {telemetry.Config{LogLevel: "loud"}, `LOG_LEVEL "loud" is not debug, info, warn or error`},
		"format":   {telemetry.Config{LogFormat: "xml"}, `LOG_FORMAT "xml" is not json or text`},
		"exporter": {environ("OTEL_TRACES_EXPORTER", "jaeger"), `OTEL_TRACES_EXPORTER "jaeger" is not otlp or none`},
		"endpoint": {environ(endpoint, "collector:4317"), endpoint + " is not a URL such as http://collector:4318"},
		"protocol": {
			environ(endpoint, "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
			`OTEL_EXPORTER_OTLP_PROTOCOL "http/json" is not grpc or http/protobuf`,
		},
		"protocol of traces": {
			environ(endpoint, "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "x"),
			`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL "x" is not grpc or http/protobuf`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := telemetry.New(t.Context(), tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
		})
	}
}

// A value that is wrong stops the start instead of becoming the SDK's default; what may
// hold a secret is not repeated.
func TestNewRefusesVariables(t *testing.T) {
	t.Parallel()
	noFile := filepath.Join(t.TempDir(), "none")
	noPEM := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(noPEM, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	const otlp = "OTEL_EXPORTER_OTLP_"
	for _, tt := range []struct{ name, value, want string }{
		{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio_", `"parentbased_traceidratio_" is none of always_on, always_off, traceidratio, `},
		{"OTEL_TRACES_SAMPLER_ARG", "1%", `"1%" is not a number from 0 to 1`},
		{"OTEL_TRACES_SAMPLER_ARG", "1.1", `is not a number from 0 to 1`},
		{"OTEL_TRACES_SAMPLER_ARG", "-0.1", `is not a number from 0 to 1`},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", `is not a number from 0 to 1`},
		{"OTEL_SDK_DISABLED", "yes", `"yes" is not true or false`},
		{otlp + "ENDPOINT", "ftp://u:hunter2@c", "is not a URL such as http://collector:4318"},
		{otlp + "ENDPOINT", "http://u:hunter2@c:4318", "has a user or a password"},
		{otlp + "ENDPOINT", "http://hunter2:%zz@c", "is not a URL"},
		{otlp + "TRACES_ENDPOINT", "hunter2", "is not a URL"},
		{otlp + "HEADERS", "authorization=Bearer hunter2%zz", "the value of entry 1 is not percent-encoded"},
		{otlp + "HEADERS", "a=b,hunter2", "entry 2 is not name=value"},
		{otlp + "HEADERS", "a=b,", "entry 2 is not name=value"},
		{otlp + "HEADERS", "hunter2 x=b", "entry 1 is not name=value"},
		{otlp + "TRACES_HEADERS", "a=hunter2%0d%0ab", "the value of entry 1"},
		{otlp + "TIMEOUT", "10s", `"10s" is not a whole number of at least 0`},
		{otlp + "TRACES_TIMEOUT", "-1", "is not a whole number"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "is not a whole number of at least 1"},
		{"OTEL_SPAN_LINK_COUNT_LIMIT", "many", "is not a whole number"},
		{otlp + "INSECURE", "1", "is not true or false"},
		{otlp + "COMPRESSION", "zstd", "is not gzip or none"},
		{otlp + "CERTIFICATE", noFile, "no such file"},
		{otlp + "TRACES_CERTIFICATE", noPEM, "holds no certificate"},
		{otlp + "CLIENT_CERTIFICATE", noPEM, "go together"},
		{otlp + "CLIENT_KEY", noPEM, "go together"},
	} {
		// The endpoint is that of the other name, so that this one is looked at too.
		cfg := environ(otlp+"TRACES_ENDPOINT", "http://c:4318", tt.name, tt.value)
		_, err := telemetry.New(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), tt.name) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s=%s: %v, want %q", tt.name, tt.value, err, tt.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v repeats the value", tt.name, err)
		}
	}
	for _, good := range [][]string{
		{"OTEL_TRACES_SAMPLER", "ParentBased_TraceIDRatio", "OTEL_TRACES_SAMPLER_ARG", "0.01"},
		{otlp + "HEADERS", "authorization=Bearer%20hunter2=, x-scope = a b"},
		{otlp + "TIMEOUT", "500", otlp + "COMPRESSION", "gzip", otlp + "INSECURE", "true", "OTEL_BSP_MAX_QUEUE_SIZE", "1"},
	} {
		build(t, environ(append(good, otlp+"ENDPOINT", "http://127.0.0.1:1")...))
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
		"by gRPC":              {environ(endpoint, url, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), true},
		"endpoint and otlp":    {environ(endpoint, url, "OTEL_TRACES_EXPORTER", "otlp"), true},
		"endpoint and none":    {environ(endpoint, url, "OTEL_TRACES_EXPORTER", "none"), false},
		"disabled":             {environ(endpoint, url, "OTEL_SDK_DISABLED", "TRUE"), false},
		"not disabled":         {environ(endpoint, url, "OTEL_SDK_DISABLED", "false"), true},
		"blank":                {environ(endpoint, " "), false},
		"protocol alone":       {environ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), false},
		"disabled, all wrong":  {environ("OTEL_SDK_DISABLED", "true", "OTEL_TRACES_EXPORTER", "jaeger"), false},
		"otlp without address": {environ("OTEL_TRACES_EXPORTER", "otlp"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, out := build(t, tt.cfg)
			if tel.TracingEnabled() != tt.enabled {
				t.Errorf("TracingEnabled() = %t, want %t", tel.TracingEnabled(), tt.enabled)
			}
			_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "x", trace.WithNewRoot())
			if !tt.enabled && (span.IsRecording() || span.SpanContext().IsValid()) {
				t.Error("a span is recorded although tracing is off")
			}
			if warned := strings.Contains(out.String(), "has no effect"); warned != (name == "otlp without address") {
				t.Errorf("warned: %t, log:\n%s", warned, out)
			}
		})
	}
}

func TestPropagatorIsW3C(t *testing.T) {
	t.Parallel()
	tel, _ := build(t, telemetry.Config{})
	carrier := propagation.MapCarrier{}
	tel.Propagator().Inject(underSpan(t), carrier)
	if carrier["traceparent"] != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
		t.Errorf("carrier %v", carrier)
	}
	// No baggage: what a client sends there is nobody's business, and no line of the log.
	if got := tel.Propagator().Fields(); !slices.Equal(got, []string{"traceparent", "tracestate"}) {
		t.Errorf("the propagator reads %q", got)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	one, _ := build(t, telemetry.Config{})
	two, _ := build(t, telemetry.Config{}) // a second service in the process
	if one.Registry() == two.Registry() {
		t.Error("two services share a registry")
	}
	families, err := one.Registry().Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
		if f.GetName() != "rowlock_build_info" {
			continue
		}
		labels := map[string]string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if f.GetMetric()[0].GetGauge().GetValue() != 1 || labels["service"] != "counts" || labels["version"] != "v1.2.3" ||
			labels["goversion"] != runtime.Version() || slices.Contains(slices.Collect(maps.Values(labels)), "") {
			t.Errorf("rowlock_build_info %v", f.GetMetric()[0])
		}
	}
	for _, name := range []string{"rowlock_build_info", "go_goroutines", "process_resident_memory_bytes"} {
		if !have[name] && (runtime.GOOS == "linux" || !strings.HasPrefix(name, "process")) {
			t.Errorf("%s is missing", name)
		}
	}
}
