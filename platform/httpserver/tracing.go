package httpserver

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// traced puts a span around every request. Its name is the method and the
// route's template, never the path; otelhttp asks for it again once the request
// has a Pattern, which finish sets.
func traced(next http.Handler, deps Deps) http.Handler {
	return otelhttp.NewHandler(next, "",
		otelhttp.WithTracerProvider(deps.TracerProvider),
		otelhttp.WithPropagators(deps.Propagator),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()), // metrics.go has them
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			method := canonicalMethod(r.Method)
			if method == methodOther {
				method = "HTTP" // as OpenTelemetry's conventions want it
			}
			if r.Pattern == "" {
				return method
			}
			return method + " " + r.Pattern
		}),
	)
}

// nameSpan gives the request's span its route.
func (ex *exchange) nameSpan() {
	trace.SpanFromContext(&ex.ctx).SetAttributes(attribute.String("http.route", ex.route.template))
}
