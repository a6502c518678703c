// Package collector is an OTLP receiver for tests: it takes what services export
// over gRPC, keeps it, and shows it as trees.
package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

var errStalled = errors.New("a stalled collector's caller has waited for long enough")

// Collector receives spans until its test ends.
type Collector struct {
	coltracepb.UnimplementedTraceServiceServer

	endpoint string
	stalled  chan struct{} // nil: answers at once

	mu    sync.Mutex
	spans []Span
	wire  bytes.Buffer // all that came, as it came
}

// Start starts a receiver.
func Start(t testing.TB) *Collector {
	t.Helper()
	return start(t, &Collector{})
}

// StartStalled starts one that accepts spans and never answers.
func StartStalled(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{stalled: make(chan struct{})}
	t.Cleanup(func() { close(c.stalled) })
	return start(t, c)
}

func start(t testing.TB, c *Collector) *Collector {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.endpoint = "http://" + listener.Addr().String()
	server := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		go server.Stop() // it waits for handlers, which a stalled one has
		if err := <-served; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
	return c
}

// Endpoint is the URL for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *Collector) Endpoint() string { return c.endpoint }

// Environ are the variables of a service that exports to c soon.
func (c *Collector) Environ() map[string]string {
	return map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.endpoint,
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_BSP_SCHEDULE_DELAY":     "50",
	}
}

// Export implements the OTLP service.
func (c *Collector) Export(
	ctx context.Context, r *coltracepb.ExportTraceServiceRequest,
) (*coltracepb.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("keep what came: %w", err)
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	c.wire.Write(raw)
	fmt.Fprint(&c.wire, headers)
	c.spans = append(c.spans, spansOf(r.GetResourceSpans())...)
	c.mu.Unlock()
	if c.stalled != nil {
		select {
		case <-c.stalled:
		case <-ctx.Done():
		}
		// An answer could be there before the caller sees that its time is over.
		return nil, errStalled
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// Spans are those received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Trace are the spans of one trace received so far.
func (c *Collector) Trace(id string) []Span {
	var found []Span
	for _, s := range c.Spans() {
		if s.Trace == id {
			found = append(found, s)
		}
	}
	return found
}

// Holds tells whether the bytes that came hold text anywhere.
func (c *Collector) Holds(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.wire.Bytes(), []byte(text))
}
