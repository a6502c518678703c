package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Transport is [NewTransport] with the spans of this process.
func (t *Telemetry) Transport(next http.RoundTripper) http.RoundTripper {
	return NewTransport(next, t.tracing)
}

// NewTransport makes a transport that takes the trace on to whoever is called: each
// request has a span of kind client, below that of its context, and a traceparent
// that names it. The caller's tracestate goes on unchanged, and so does the decision
// not to record; where nothing is to be recorded, by a provider that does nothing
// too, the context's own traceparent is sent. Without a trace the request is sent as
// it is.
//
// A span has the method, the server and the answer's status, as OpenTelemetry's
// conventions for HTTP clients name them, and ends with the answer's body. The URL is
// left out, though they ask for it, and so is an error's text: ids and keys stand there.
func NewTransport(next http.RoundTripper, provider trace.TracerProvider) http.RoundTripper {
	return &transport{next: next, tracer: provider.Tracer("github.com/rowlock/rowlock/platform/telemetry")}
}

type transport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip sends r, below a span.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name, method := methodOf(r)
	ctx, span := t.tracer.Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindClient))
	if !span.SpanContext().IsValid() {
		span.End()
		return t.next.RoundTrip(r) //nolint:wrapcheck // http.Client wraps it
	}
	r = r.Clone(ctx) // a RoundTripper must not change its request
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if !span.IsRecording() {
		span.End()
		return t.next.RoundTrip(r) //nolint:wrapcheck // the same
	}
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(method))
	span.SetAttributes(serverOf(r.URL)...)
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		failed(span, err)
		span.End()
		return resp, err //nolint:wrapcheck // the same
	}
	answered(span, resp.StatusCode)
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		span.End() // what comes now is no answer any more, or nothing
		return resp, nil
	}
	resp.Body = &spanBody{resp.Body, span}
	return resp, nil
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// methodOf is the span's name, and the method as the conventions want it.
func methodOf(r *http.Request) (name, method string) {
	switch r.Method {
	case "":
		return http.MethodGet, http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return r.Method, r.Method
	default:
		return "HTTP", "_OTHER"
	}
}

// serverOf says who is called, and no more of the URL.
func serverOf(u *url.URL) []attribute.KeyValue {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	attributes := []attribute.KeyValue{semconv.ServerAddress(u.Hostname())}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(n))
	}
	return attributes
}

// answered notes the status. To who asked a 4xx is a failure as well.
func answered(span trace.Span, status int) {
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if status >= http.StatusBadRequest {
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}
}

// failed notes that no answer came, or not all of it. Who gives up a request of their
// own has made no error.
func failed(span trace.Span, err error) {
	kind := "_OTHER"
	netError, isNet := errors.AsType[net.Error](err)
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled):
		span.SetAttributes(semconv.ErrorTypeKey.String("canceled"))
		return
	case errors.Is(err, context.DeadlineExceeded), isNet && netError.Timeout():
		kind = "timeout"
	case isOp && op.Op == "dial":
		kind = "connect"
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, "")
}

// spanBody ends the span with the answer's body.
type spanBody struct {
	io.ReadCloser

	span trace.Span
}

// Read ends the span when nothing more comes.
func (b *spanBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			failed(b.span, err)
		}
		b.span.End() // once: later ends change nothing
	}
	return n, err //nolint:wrapcheck // an io.Reader returns what it got
}

// Close ends the span of a body that was not read to its end.
func (b *spanBody) Close() error {
	err := b.ReadCloser.Close()
	b.span.End()
	return err //nolint:wrapcheck // an io.Closer returns what it got
}
