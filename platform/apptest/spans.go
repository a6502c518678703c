package apptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Spans receives what a replica traces in a test.
type Spans struct {
	endpoint string

	mu   sync.Mutex
	byID map[string]*tracepb.Span
}

// CollectSpans starts a receiver. It sets variables of the process, which the exporter reads, so the test must not be
// parallel.
func CollectSpans(t *testing.T) *Spans {
	t.Helper()
	s := &Spans{byID: make(map[string]*tracepb.Span)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.endpoint = server.URL
	for name, value := range s.Environ() {
		t.Setenv(name, value)
	}
	return s
}

// Environ returns the variables of a replica whose spans are collected.
func (s *Spans) Environ() map[string]string {
	return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
}

// Client returns a client that passes on the trace of a request's context.
func (*Spans) Client() *http.Client { return client }

// ServeHTTP receives an export.
func (s *Spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var export coltracepb.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, proto.Unmarshal(body, &export)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range export.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.byID[string(span.GetSpanId())] = span
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

// Send sends a request in ctx's trace and returns its answer. header holds names and values in turn; a body is JSON
// unless they say otherwise. An answer whose status is not 2xx is an error.
func (*Spans) Send(ctx context.Context, method, url, body string, header ...string) (Answer, error) {
	a := send(ctx, method, url, body, headerOf(body, header))
	if a.Status/100 != 2 {
		return a, fmt.Errorf("%s %s: %s", method, url, a)
	}
	return a, nil
}

// Sending returns the operation of that name, which sends a request.
func (s *Spans) Sending(name, method, url, body string, header ...string) Operation {
	return Operation{Name: name, Call: func(ctx context.Context) error {
		_, err := s.Send(ctx, method, url, body, header...)
		return err
	}}
}

// AreTraced calls each operation in a trace of its own, stops what was called, which sends its last spans, and fails
// the test unless each has a span of its own in that trace: the caller's span → the request, of kind server → the
// operation.
func (s *Spans) AreTraced(t *testing.T, stop func() error, operations []Operation) {
	t.Helper()
	caller := trace.SpanContextConfig{SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true}
	for i, o := range operations {
		caller.TraceID = trace.TraceID{byte(i + 1)}
		if err := o.Call(trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(caller))); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range operations {
		caller.TraceID = trace.TraceID{byte(i + 1)}
		if !s.below(trace.NewSpanContext(caller), o.Name) {
			t.Errorf("no span %s is below a request of the caller", o.Name)
		}
	}
}

// below reports whether a span of that name is below a request of the caller.
func (s *Spans) below(caller trace.SpanContext, name string) bool {
	id, parent := caller.TraceID(), caller.SpanID()
	for span := range maps.Values(s.byID) {
		if span.GetName() != name || !bytes.Equal(span.GetTraceId(), id[:]) {
			continue
		}
		above := s.byID[string(span.GetParentSpanId())]
		for above != nil && !bytes.Equal(above.GetParentSpanId(), parent[:]) { // Connect has a span of its own
			above = s.byID[string(above.GetParentSpanId())]
		}
		return above.GetKind() == tracepb.Span_SPAN_KIND_SERVER
	}
	return false
}
