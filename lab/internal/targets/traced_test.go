package targets

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/telemetry"
)

const (
	someTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan  = "00f067aa0ba902b7"
)

// get sends a request in the trace of a caller, with these flags, and returns the traceparent that the server got.
func get(t *testing.T, client *http.Client, url, flags string) string {
	t.Helper()
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{
		"traceparent": "00-" + someTrace + "-" + someSpan + "-" + flags, "tracestate": "vendor=1,other=a:b",
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if state := resp.Header.Get("Tracestate"); state != "vendor=1,other=a:b" {
		t.Errorf("the server got the tracestate %q", state)
	}
	return resp.Header.Get("Traceparent")
}

// newEcho starts a server that answers with the trace headers it got; only /items exists.
func newEcho(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Traceparent", "Tracestate"} {
			w.Header().Set(name, r.Header.Get(name))
		}
		if !strings.HasPrefix(r.URL.Path, "/items") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Every call has a span of kind client, which the server is given as parent, and which holds nothing of path and query.
// The caller's decision not to record is passed on.
func TestTransport(t *testing.T) {
	t.Parallel()
	server, gone := newEcho(t), httptest.NewServer(nil)
	gone.Close()
	spans := tracetest.NewSpanRecorder()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: traced{
		base, telemetry.NewProvider(spans).Tracer("test"), propagation.TraceContext{},
	}}
	for _, test := range []struct {
		url, status string
		code        codes.Code
	}{
		{server.URL + "/items/s3cret?key=s3cret", "200", codes.Unset},
		{server.URL + "/s3cret", "404", codes.Error},
		{gone.URL + "/s3cret", "", codes.Error},
	} {
		spans.Reset()
		parent := get(t, client, test.url, "01")
		span := spans.Ended()[0]
		if id := span.SpanContext().SpanID().String(); parent != "" && parent != "00-"+someTrace+"-"+id+"-01" {
			t.Errorf("%s: the span %s was sent as %s", test.url, id, parent)
		}
		all := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events())
		if span.SpanKind() != trace.SpanKindClient || span.Parent().SpanID().String() != someSpan ||
			span.Status().Code != test.code || strings.Contains(all, "s3cret") ||
			!strings.Contains(all, test.status) || !strings.Contains(all, "127.0.0.1") {
			t.Errorf("%s: %s", test.url, all)
		}
	}

	spans.Reset()
	got := get(t, client, server.URL+"/items", "00")
	if !strings.HasPrefix(got, "00-"+someTrace+"-") || !strings.HasSuffix(got, "-00") || len(spans.Started()) != 0 {
		t.Errorf("it calls with %q and records %d spans", got, len(spans.Started()))
	}
}
