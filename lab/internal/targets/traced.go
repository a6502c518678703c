package targets

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// traced is a transport that propagates traces: each request gets a span of kind client below the context's span, which
// its header names. The tracestate and the decision not to record are passed on unchanged. Without tracing, the header
// names the context's span if it has one.
//
// A span has the method, the server and the status, and ends when the answer's header has arrived. It leaves out the
// URL and the text of an error, which contain ids and keys; that is why this is not otelhttp.
type traced struct {
	next       http.RoundTripper
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

// RoundTrip sends r within a span.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := t.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(r.Method), semconv.ServerAddress(r.URL.Hostname()))
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		span.SetAttributes(semconv.ServerPort(port))
	}

	r = r.Clone(ctx) // a RoundTripper must not change its request
	t.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		span.SetStatus(codes.Error, "")
		return resp, err
	}

	span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, "")
	}
	return resp, nil
}
