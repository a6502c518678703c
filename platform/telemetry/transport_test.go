package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// callee is a server that keeps the headers of the last request, and what it asks for:
// a status, an answer that breaks off, or none at all.
type callee struct {
	*httptest.Server

	last atomic.Pointer[http.Header]
}

// header is that of the last request, of none when there was none.
func (c *callee) header() http.Header {
	if h := c.last.Load(); h != nil {
		return *h
	}
	return nil
}

func newCallee(t *testing.T) *callee {
	t.Helper()
	c := &callee{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		c.last.Store(&header)
		switch r.URL.Path {
		case "/items/s3cret":
			_, _ = io.WriteString(w, "an answer")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/hang":
			<-r.Context().Done()
		case "/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

const (
	someTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan  = "00f067aa0ba902b7"
)

// calledFrom is the context of a program that was called with a traceparent.
func calledFrom(t *testing.T, flags string) context.Context {
	t.Helper()
	return propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{
		"traceparent": "00-" + someTrace + "-" + someSpan + "-" + flags, "tracestate": "vendor=1,other=a:b",
	})
}

// call sends a request and reads the answer; what becomes of it is the test's matter.
func call(ctx context.Context, c *http.Client, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Every call has a span of kind client, which the callee is told of, and which says
// nothing that stands in a path, a query or an answer.
func TestTransport(t *testing.T) {
	t.Parallel()
	server := newCallee(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	spans := tracetest.NewSpanRecorder()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: telemetry.NewTransport(base, telemetry.NewProvider(spans))}
	late := func(ctx context.Context) (context.Context, func()) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	hungUp := func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		return ctx, cancel
	}
	for _, test := range []struct {
		method, url, name string
		context           func(context.Context) (context.Context, func())
		status            int64
		errorType         string
		code              codes.Code
	}{
		{"GET", server.URL + "/items/s3cret?key=s3cret", "GET", nil, 200, "", codes.Unset},
		{"DELETE", server.URL + "/none", "DELETE", nil, 204, "", codes.Unset},
		{"POST", server.URL + "/s3cret", "POST", nil, 404, "404", codes.Error},
		{"BREW", server.URL + "/none", "HTTP", nil, 204, "", codes.Unset},
		{"GET", server.URL + "/broken", "GET", nil, 200, "_OTHER", codes.Error},
		{"GET", server.URL + "/hang", "GET", late, 0, "timeout", codes.Error},
		{"GET", server.URL + "/hang", "GET", hungUp, 0, "canceled", codes.Unset},
		{"GET", gone.URL + "/s3cret", "GET", nil, 0, "connect", codes.Error},
	} {
		ctx, cancel := calledFrom(t, "01"), func() {}
		if test.context != nil {
			ctx, cancel = test.context(ctx)
		}
		spans.Reset()
		server.last.Store(nil)
		_ = call(ctx, client, test.method, test.url)
		cancel()
		ended := spans.Ended()
		if len(ended) != 1 || len(spans.Started()) != 1 {
			t.Fatalf("%s %s: %d spans began, %d ended", test.method, test.url, len(spans.Started()), len(ended))
		}
		span := ended[0]
		attributes := map[string]any{}
		for _, a := range span.Attributes() {
			attributes[string(a.Key)] = a.Value.AsInterface()
		}
		status, _ := attributes["http.response.status_code"].(int64)
		errorType, _ := attributes["error.type"].(string)
		if span.Name() != test.name || span.SpanKind() != trace.SpanKindClient || span.Status().Code != test.code ||
			status != test.status || errorType != test.errorType {
			t.Errorf("%s %s: %s of kind %s, %v, %v; want %+v", test.method, test.url, span.Name(), span.SpanKind(), span.Status(), attributes, test)
		}
		if attributes["server.address"] != "127.0.0.1" || attributes["server.port"] == nil || len(attributes) > 5 {
			t.Errorf("%s %s: %v", test.method, test.url, attributes)
		}
		if all := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events()); strings.Contains(all, "s3cret") {
			t.Errorf("it tells an id: %s", all)
		}
		if span.Parent().SpanID().String() != someSpan || span.SpanContext().TraceID().String() != someTrace {
			t.Errorf("%s %s: the span is in %s below %s", test.method, test.url, span.SpanContext().TraceID(), span.Parent().SpanID())
		}
		want := "00-" + someTrace + "-" + span.SpanContext().SpanID().String() + "-01"
		if h := server.header(); h != nil && (h.Get("Traceparent") != want || h.Get("Tracestate") != "vendor=1,other=a:b") {
			t.Errorf("%s %s was sent with %v, want %s and the tracestate as it came", test.method, test.url, h, want)
		}
	}
}

// What is not recorded here goes on all the same: the decision not to record, and the
// caller's own span where this process has none.
func TestTransportOfWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	server := newCallee(t)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	spans := tracetest.NewSpanRecorder()
	on := &http.Client{Transport: telemetry.NewTransport(base, telemetry.NewProvider(spans))}
	off := &http.Client{Transport: telemetry.NewTransport(base, noop.NewTracerProvider())}
	for _, test := range []struct {
		client *http.Client
		flags  string
	}{{on, "00"}, {off, "00"}, {off, "01"}} {
		if err := call(calledFrom(t, test.flags), test.client, "GET", server.URL+"/none"); err != nil {
			t.Fatal(err)
		}
		got := server.header().Get("Traceparent")
		if !strings.HasPrefix(got, "00-"+someTrace+"-") || !strings.HasSuffix(got, "-"+test.flags) || server.header().Get("Tracestate") == "" {
			t.Errorf("called with flags %s, it calls with %q, %q", test.flags, got, server.header().Get("Tracestate"))
		}
		if test.client == off && !strings.Contains(got, someSpan) {
			t.Errorf("%q names a span that nobody has", got)
		}
	}
	if n := len(spans.Started()); n != 0 {
		t.Errorf("%d spans of what is not sampled", n)
	}
	if err := call(t.Context(), off, "GET", server.URL+"/none"); err != nil || server.header().Get("Traceparent") != "" {
		t.Errorf("without a trace: %v, %v", err, server.header())
	}
	on.CloseIdleConnections()
}
