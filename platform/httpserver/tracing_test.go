package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// tracedFixture is a server with tracing, and the spans of its requests.
func tracedFixture(t *testing.T, change ...func(*Deps)) (*fixture, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(spans)
	f := newFixture(t, Config{LogRequests: "all"}, append(change, func(d *Deps) {
		d.TracerProvider, d.Propagator = provider, propagation.TraceContext{}
	})...)
	return f, spans
}

func TestTracing(t *testing.T) {
	t.Parallel()
	f, spans := tracedFixture(t)
	f.handle(http.MethodGet, "/a/:id", answer)
	f.handle(http.MethodGet, "/panic/:id", func(echo.Context) error { panic("s3cret") })
	f.handle(http.MethodGet, "/bad/:id", func(echo.Context) error {
		return problem.InvalidField.New("s3cret is no number.", problem.Cause(errors.New("s3cret")))
	})
	f.handle(http.MethodGet, "/away", func(echo.Context) error {
		return problem.DatabaseUnavailable.New("Away.")
	})
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	f.do(t, "GET", "/a/s3cret?q=s3cret", "", "Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01", "Tracestate", "vendor=1",
		"User-Agent", "s3cret", "X-Forwarded-For", "s3cret", "X-Request-Id", "s3cret", "Host", "s3cret")
	panicked := wantProblem(t, f.do(t, "GET", "/panic/s3cret", ""), problem.Internal, "")
	bad := wantProblem(t, f.do(t, "GET", "/bad/s3cret", ""), problem.InvalidField, "")
	away := wantProblem(t, f.do(t, "GET", "/away", ""), problem.DatabaseUnavailable, "")
	missing := wantProblem(t, f.do(t, "BREW", "/s3cret", ""), problem.NotFound, "")

	ended := spans.Ended()
	want := []struct {
		name, route, trace string
		code               string
		status             int64
		failed             codes.Code
	}{
		{"GET /a/{id}", "/a/{id}", traceID, "", 200, codes.Unset},
		{"GET /panic/{id}", "/panic/{id}", panicked.TraceID, "INTERNAL", 500, codes.Error},
		{"GET /bad/{id}", "/bad/{id}", bad.TraceID, "INVALID_FIELD", 400, codes.Unset},
		{"GET /away", "/away", away.TraceID, "DATABASE_UNAVAILABLE", 503, codes.Error},
		{"HTTP", "", missing.TraceID, "NOT_FOUND", 404, codes.Unset},
	}
	if len(ended) != len(want) {
		t.Fatalf("%d spans, want %d", len(ended), len(want))
	}
	for i, want := range want {
		span := ended[i]
		attributes := map[string]any{}
		for _, a := range span.Attributes() {
			attributes[string(a.Key)] = a.Value.AsInterface()
		}
		route, _ := attributes["http.route"].(string)
		code, _ := attributes["rowlock.code"].(string)
		if span.Name() != want.name || route != want.route || span.SpanContext().TraceID().String() != want.trace {
			t.Errorf("span %q, route %q, trace %s; want %+v", span.Name(), route, span.SpanContext().TraceID(), want)
		}
		if code != want.code || attributes["http.response.status_code"] != want.status || span.Status().Code != want.failed {
			t.Errorf("%s: %v, %v; want %+v", want.name, attributes, span.Status(), want)
		}
		if span.SpanKind() != trace.SpanKindServer {
			t.Errorf("%s is of kind %s", want.name, span.SpanKind())
		}
		if all := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events()); strings.Contains(all, "s3cret") {
			t.Errorf("%s repeats what the client sent: %s", want.name, all)
		}
		if len(attributes) > 7 {
			t.Errorf("%s has %d attributes: %v", want.name, len(attributes), attributes)
		}
	}
	if state := ended[0].SpanContext().TraceState().String(); state != "vendor=1" || !ended[0].Parent().IsRemote() {
		t.Errorf("tracestate %q, parent %+v", state, ended[0].Parent())
	}
}

// A client that does not want to be traced is not, and its trace id still finds its request in the log.
func TestUnsampledTraceparent(t *testing.T) {
	t.Parallel()
	f, spans := tracedFixture(t)
	f.handle(http.MethodGet, "/a", func(echo.Context) error { return problem.Overloaded.New("Busy.") })
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	d := wantProblem(t, f.do(t, "GET", "/a", "", "Traceparent", "00-"+traceID+"-00f067aa0ba902b7-00"), problem.Overloaded,
		"")
	if d.TraceID != traceID || len(spans.Ended()) != 0 {
		t.Errorf("trace_id %q, %d spans", d.TraceID, len(spans.Ended()))
	}
}

// The span of an operation and the client learn the same about an error.
func TestProblemOfIsTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	for method, want := range map[string]problem.Kind{"GET": problem.NotApplied, "POST": problem.OutcomeUnknown} {
		f.handle(method, "/late", func(c echo.Context) error {
			err := fmt.Errorf("in an operation: %w", context.DeadlineExceeded)
			if p, ok := ProblemOf(c.Request().Context(), err); !ok || p.Kind() != want {
				t.Errorf("%s: %v", method, p)
			}
			return err
		})
		wantProblem(t, f.do(t, method, "/late", ""), want, "")
	}
	if p, ok := ProblemOf(t.Context(), context.DeadlineExceeded); ok {
		t.Errorf("without a request: %v", p)
	}
}

// A request whose span is recorded is an exemplar of its duration, which /metrics shows to a scraper that asks for
// OpenMetrics; a request that is not sampled is none.
func TestExemplars(t *testing.T) {
	t.Parallel()
	const sampled, unsampled = "4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736"
	f, _ := tracedFixture(t)
	f.handle(http.MethodGet, "/a/:id", answer)
	f.do(t, "GET", "/a/x", "", "Traceparent", "00-"+sampled+"-00f067aa0ba902b7-01")
	f.do(t, "GET", "/a/x", "", "Traceparent", "00-"+unsampled+"-00f067aa0ba902b7-00")
	log := slog.New(slog.DiscardHandler)
	admin := NewAdmin(AdminConfig{Gatherer: f.registry, Readiness: NewReadiness(there, log)}, log)
	for accept, want := range map[string]bool{
		"application/openmetrics-text;version=1.0.0": true, "text/plain;version=0.0.4": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		admin.http.Handler.ServeHTTP(w, r)
		page := w.Body.String()
		if got := strings.Contains(page, `trace_id="`+sampled+`"`); got != want {
			t.Errorf("%s: an exemplar of the sampled request: %t, want %t\n%s", accept, got, want, page)
		}
		if strings.Contains(page, unsampled) || !strings.Contains(page, "_count{") {
			t.Errorf("%s: an exemplar of the other request, or no metrics:\n%s", accept, page)
		}
	}
}
