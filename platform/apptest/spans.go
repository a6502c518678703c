package apptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// Spans receives what is traced in a test: by the replica, and by a caller of its API that traces its calls.
type Spans struct {
	endpoint string
	caller   *telemetry.Telemetry

	mu    sync.Mutex
	byID  map[string]*tracepb.Span
	owner map[string]string // by span: service.name
}

// callerName is the caller's service.name.
const callerName = "caller"

// CollectSpans starts a receiver and a caller. It sets variables of the process, which the exporter reads, so the test
// must not be parallel.
func CollectSpans(t *testing.T) *Spans {
	t.Helper()
	s := &Spans{byID: map[string]*tracepb.Span{}, owner: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.endpoint = server.URL
	for name, value := range s.Environ() {
		t.Setenv(name, value)
	}
	var err error
	cfg := telemetry.Config{Service: callerName, Output: t.Output(), Environ: s.Environ()}
	s.caller, err = telemetry.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.caller.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Environ returns the variables of a replica whose spans are collected.
func (s *Spans) Environ() map[string]string {
	return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
}

// Client returns the caller's client, which passes on the trace of a request's context.
func (s *Spans) Client() *http.Client {
	return &http.Client{Transport: s.caller.Transport(client.Transport), Timeout: client.Timeout}
}

// ServeHTTP receives an export.
func (s *Spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var export coltracepb.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range export.GetResourceSpans() {
		owner := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				owner = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.byID[string(span.GetSpanId())], s.owner[string(span.GetSpanId())] = span, owner
			}
		}
	}
}

// Has reports whether a span of this name was received.
func (s *Spans) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for span := range maps.Values(s.byID) {
		if span.GetName() == name {
			return true
		}
	}
	return false
}

// Operation names one thing that a service does.
type Operation struct {
	// Name is that of its span.
	Name string
	// Call calls it by Spans.Client or Spans.Send.
	Call func(ctx context.Context) error
}

// Send sends a request in ctx's trace and returns its answer. header holds names and values in turn. An answer whose
// status is not 2xx is an error.
func (s *Spans) Send(ctx context.Context, method, url, body string, header ...string) (http.Header, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	answer, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, answer)
	}
	return resp.Header, string(answer), err
}

// Sending returns the operation of that name, which sends a request.
func (s *Spans) Sending(name, method, url, body string, header ...string) Operation {
	return Operation{Name: name, Call: func(ctx context.Context) error {
		_, _, err := s.Send(ctx, method, url, body, header...)
		return err
	}}
}

// AreTraced calls each operation below a span of the caller's, stops what was called, which sends its last spans, and
// fails the test unless each has a span of its own in the caller's trace: the caller's span → its call, of kind
// client → the request, of kind server → the operation.
func (s *Spans) AreTraced(t *testing.T, stop func() error, operations []Operation) {
	t.Helper()
	traces := map[string]string{}
	for _, o := range operations {
		ctx, span := s.caller.TracerProvider().Tracer(callerName).Start(t.Context(), "a test")
		if err := o.Call(ctx); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		span.End()
		id := span.SpanContext().TraceID()
		traces[o.Name] = string(id[:])
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := s.caller.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range operations {
		if above := s.above(traces[o.Name], o.Name); above != "server, client, a test" {
			t.Errorf("the span %s is below %q", o.Name, above)
		}
	}
}

// above returns the kinds of the request above a span and of the call above that, and the name of the caller's span.
func (s *Spans) above(trace, name string) string {
	for span := range maps.Values(s.byID) {
		if span.GetName() != name || string(span.GetTraceId()) != trace {
			continue
		}
		request := s.byID[string(span.GetParentSpanId())]
		call := s.byID[string(request.GetParentSpanId())]
		for s.owner[string(call.GetSpanId())] != callerName && call != nil { // Connect has a span of its own
			request, call = call, s.byID[string(call.GetParentSpanId())]
		}
		kinds := map[tracepb.Span_SpanKind]string{
			tracepb.Span_SPAN_KIND_SERVER: "server", tracepb.Span_SPAN_KIND_CLIENT: "client",
		}
		top := s.byID[string(call.GetParentSpanId())]
		return kinds[request.GetKind()] + ", " + kinds[call.GetKind()] + ", " + top.GetName()
	}
	return "nothing: there is none"
}
