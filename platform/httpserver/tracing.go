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
	// attributeCode is the answer's code in the error table.
	attributeCode = attribute.Key("rowlock.code")
	// attributeLeft says that the client closed its connection before it had its answer.
	attributeLeft = attribute.Key("rowlock.client_left")
)

// startSpan starts a request's span, as a child of the span that the client names. Its attributes are the method, the
// route's template and the answer's status, all from closed lists. It leaves out the path, the query, the client's
// address and its User-Agent, which is why this is not otelecho: paths contain ids and keys, and the rest may contain
// anything. Without tracing it returns a no-op span.
func (s *Server) startSpan(r *request) trace.Span {
	if s.tracer == nil {
		return noop.Span{}
	}
	in := r.Request()
	name, attributes := described(in, r)

	ctx := s.deps.Propagator.Extract(r.outer, traceHeaders{propagation.HeaderCarrier(in.Header)})
	ctx, span := s.tracer.Start( //nolint:spancheck // the caller ends it
		ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	r.outer = ctx
	return span //nolint:spancheck // as above
}

// traceHeaders hides the names of the headers, among which the propagator ottrace looks for baggage: the SDK logs any
// that it cannot parse.
type traceHeaders struct{ propagation.HeaderCarrier }

// Keys returns no names.
func (traceHeaders) Keys() []string { return nil }

// described returns the initial name and attributes of a request's span.
func described(in *http.Request, r *request) (name string, attributes []attribute.KeyValue) {
	method := canonicalMethod(in.Method)
	name = method
	if method == methodOther {
		method, name = "_OTHER", "HTTP" // OpenTelemetry's conventions
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

// conclude records the outcome in the span. A 4xx is the client's fault and no failure of the span; nor is a failure
// caused by the client's leaving.
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

// Operation returns middleware that adds a span around the handler, below the request's span. The name is a constant
// such as "counts.increase". If ops is nil, tracing is off and nothing is added.
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

// Operations returns the middleware for each operation of a contract; names maps an operationId to the name of its
// span. The result fits RegisterHandlersOptions of generated code.
func Operations(ops *telemetry.Operations, names map[string]string) map[string][]echo.MiddlewareFunc {
	all := make(map[string][]echo.MiddlewareFunc, len(names)) // not nil: a service may add to it
	for id, name := range names {
		all[id] = []echo.MiddlewareFunc{Operation(ops, name)}
	}
	return all
}
