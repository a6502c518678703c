package httpserver

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rowlock/rowlock/platform/telemetry"
)

const (
	// attributeCode is the code of the error table that the answer names.
	attributeCode = attribute.Key("rowlock.code")
	// attributeLeft says that the client closed its connection before it had its answer.
	attributeLeft = attribute.Key("rowlock.client_left")
)

// startSpan puts a span around a request, below the one that the client's traceparent names. It has the method, the
// route's template and the answer's status, all of which come from closed lists. The path, the query, the client's
// address and its User-Agent are left out, which is why this is not otelecho: ids and keys stand in paths, and
// anything may stand in the rest. Without tracing the span is none.
func (s *Server) startSpan(r *request) trace.Span {
	if s.tracer == nil {
		return noop.Span{}
	}
	in := r.Request()
	name, attributes := described(in, r)
	ctx := s.deps.Propagator.Extract(r.outer, propagation.HeaderCarrier(in.Header))
	ctx, span := s.tracer.Start( //nolint:spancheck // the caller ends it
		ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	r.outer = r.carry(ctx)
	r.SetRequest(in.WithContext(r.outer))
	return span //nolint:spancheck // as above
}

// described returns the name and the attributes with which a request's span begins.
func described(in *http.Request, r *request) (name string, attributes []attribute.KeyValue) {
	method := canonicalMethod(in.Method)
	name = method
	if method == methodOther {
		method, name = "_OTHER", "HTTP" // as OpenTelemetry's conventions want them
	}
	version := strconv.Itoa(in.ProtoMajor)
	if in.ProtoMajor < 2 { // HTTP/2 has no minor version
		version += "." + strconv.Itoa(in.ProtoMinor)
	}
	attributes = []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme("http"), semconv.NetworkProtocolVersion(version),
	}
	if r.route != "" {
		name += " " + r.route
		attributes = append(attributes, semconv.HTTPRoute(r.route))
	}
	return name, attributes
}

// conclude gives the span its outcome. A 4xx is the client's, and no failure of the server's span; nor is what failed
// because the client left.
func conclude(span trace.Span, r *request, status int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	kind := strconv.Itoa(status)
	if code := r.code(); code != "" {
		span.SetAttributes(attributeCode.String(code))
		kind = code
	}
	if r.clientLeft() {
		span.SetAttributes(attributeLeft.Bool(true))
		if r.stack == nil {
			return
		}
	}
	if status >= http.StatusInternalServerError {
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, "")
	}
}

// Operation returns middleware that puts a span around what a handler does, below the request's span. The name is a
// constant such as "counts.increase". Without tracing, which is a nil ops, it adds nothing.
func Operation(ops *telemetry.Operations, name string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if ops == nil {
			return next
		}
		return func(c echo.Context) (err error) {
			ctx, end := ops.Start(c.Request().Context(), name)
			defer end(&err)
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}
}

// Operations returns the middleware of each operation of a contract: names maps an operationId to the name of its
// span. The result fits RegisterHandlersOptions of generated code.
func Operations(ops *telemetry.Operations, names map[string]string) map[string][]echo.MiddlewareFunc {
	all := make(map[string][]echo.MiddlewareFunc, len(names)) // to which a service may add
	if ops == nil {
		return all
	}
	for id, name := range names {
		all[id] = []echo.MiddlewareFunc{Operation(ops, name)}
	}
	return all
}
