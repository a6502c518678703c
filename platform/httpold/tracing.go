package httpold

import (
	"errors"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// attributeCode is the code of the error table that the answer names.
const attributeCode = attribute.Key("rowlock.code")

// traced puts a span around every request, below the one that the client's
// traceparent names. It knows the method, the route's template and the answer's
// status, all of which come from closed lists. The path, the query, the client's
// address and its User-Agent are left out, which is why this is not otelhttp: ids
// and keys stand in paths, and anything may stand in the rest.
func traced(next http.Handler, deps Deps) http.Handler {
	tracer := deps.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/httpserver")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := canonicalMethod(r.Method)
		name := method
		if method == methodOther {
			method, name = "_OTHER", "HTTP" // as OpenTelemetry's conventions want them
		}
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		ctx := deps.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(scheme),
			semconv.NetworkProtocolVersion(protocolVersion(r))))
		defer span.End() // finish may panic, to cut the connection
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// protocolVersion is 1.1 or 2: HTTP/2 has no minor version.
func protocolVersion(r *http.Request) string {
	if r.ProtoMajor > 1 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}

// attributeLeft says that the client hung up before it had its answer.
const attributeLeft = attribute.Key("rowlock.client_left")

// describe tells the request's span what became of it. A 4xx is the client's, and
// no failure of the server's span, nor is what failed because the client hung up.
func (ex *exchange) describe(clientLeft bool) {
	span := trace.SpanFromContext(&ex.ctx)
	if !span.IsRecording() {
		return
	}
	if ex.route != nil {
		span.SetName(canonicalMethod(ex.request.Method) + " " + ex.route.template)
		span.SetAttributes(semconv.HTTPRoute(ex.route.template))
	}
	status := ex.booked()
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if ex.problem != nil {
		span.SetAttributes(attributeCode.String(ex.problem.Kind().Code()))
	}
	if clientLeft {
		span.SetAttributes(attributeLeft.Bool(true))
		if _, panicked := errors.AsType[*panicError](ex.failure); !panicked {
			return
		}
	}
	if status >= http.StatusInternalServerError {
		kind := strconv.Itoa(status)
		if ex.problem != nil {
			kind = ex.problem.Kind().Code()
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, "")
	}
}
