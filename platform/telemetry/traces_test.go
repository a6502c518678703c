package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// collector is an OTLP receiver for both protocols.
type collector struct {
	coltracepb.UnimplementedTraceServiceServer

	got chan []*tracepb.ResourceSpans
}

func (c collector) Export(
	_ context.Context, r *coltracepb.ExportTraceServiceRequest,
) (*coltracepb.ExportTraceServiceResponse, error) {
	c.got <- r.GetResourceSpans()
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func (c collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request coltracepb.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, proto.Unmarshal(body, &request)); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.got <- request.GetResourceSpans()
}

// start returns the collector's endpoint for a protocol.
func (c collector) start(t *testing.T, protocol string) string {
	t.Helper()
	if protocol != "grpc" {
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		return server.URL
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// Both protocols work from the variables alone. The SDK reads them from the process, so these tests are not parallel.
func TestSpansReachTheCollector(t *testing.T) {
	for _, protocol := range []string{"", "grpc"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			c := collector{got: make(chan []*tracepb.ResourceSpans, 1)}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.start(t, protocol))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_SERVICE_NAME", "counts-blue")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=v9")

			tel, _ := build(t, telemetry.Config{Environ: config.Environ()})
			_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "GET /x")
			span.End()
			for range 2 { // the first sends what waits, the second does nothing
				if err := tel.Shutdown(t.Context()); err != nil {
					t.Fatalf("Shutdown: %v", err)
				}
			}
			checkSpans(t, <-c.got)
		})
	}
}

func checkSpans(t *testing.T, spans []*tracepb.ResourceSpans) {
	t.Helper()
	if len(spans) != 1 || spans[0].GetScopeSpans()[0].GetSpans()[0].GetName() != "GET /x" {
		t.Fatalf("spans %v", spans)
	}
	attrs := map[string]string{}
	for _, a := range spans[0].GetResource().GetAttributes() {
		attrs[a.GetKey()] = a.GetValue().GetStringValue()
	}
	for key, want := range map[string]string{
		"service.name": "counts-blue", "service.version": "v9",
		"deployment.environment.name": "test", "telemetry.sdk.language": "go",
	} {
		if attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, attrs[key], want)
		}
	}
	if attrs["service.instance.id"] == "" {
		t.Error("service.instance.id is missing: replicas could not be told apart")
	}
}

func TestBadResourceAttributes(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense")
	_, err := telemetry.New(t.Context(), telemetry.Config{Service: "counts", Environ: config.Environ()})
	if err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("New: %v, want an error that names OTEL_RESOURCE_ATTRIBUTES", err)
	}
}

// A collector that does not answer must not hold up the end of the process.
func TestShutdownKeepsItsDeadline(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)

	cfg := telemetry.Config{Service: "counts", Environ: config.Environ(), Output: io.Discard}
	tel, err := telemetry.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "x")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := tel.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v, want the deadline", err)
	}
}
