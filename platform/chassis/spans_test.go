package chassis_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// The spans of a drain that took all its time are those that tell why: they are sent.
// The SDK reads its variables from the process, so this cannot run beside others.
func TestLastSpansAreSentAfterALongDrain(t *testing.T) {
	var received atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "60000") // not before the end

	p := newProbe(t, dbtest.Empty(t), nil)
	p.environ, p.cfg.ShutdownTimeout, p.cfg.ShutdownDelay = config.Environ(), 200*time.Millisecond, 0
	p.build = func(c *chassis.Chassis) {
		c.Add(lifecycle.Part{Name: "own", Stop: func(ctx context.Context) error {
			_, span := c.Telemetry().TracerProvider().Tracer("test").Start(context.WithoutCancel(ctx), "slow request")
			<-ctx.Done()
			span.End()
			return nil
		}})
	}
	r := p.run(t)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if err := r.stop(); err != nil {
		t.Logf("stop: %v", err) // the pool may have had too little time
	}
	if received.Load() == 0 {
		t.Error("no span reached a healthy collector")
	}
}

// A request joins its caller's trace as OTEL_PROPAGATORS says. Baggage is accepted, and never read.
func TestPropagators(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)

	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	const w3c, b3 = "00-" + trace + "-" + span + "-00", trace + "-" + span + "-0"
	for propagators, joins := range map[string]struct{ w3c, b3 bool }{
		"":                       {w3c: true},
		"tracecontext,baggage":   {w3c: true},
		"b3":                     {b3: true},
		"b3multi, tracecontext,": {w3c: true, b3: true},
		"none":                   {},
		"baggage":                {},
	} {
		t.Setenv("OTEL_PROPAGATORS", propagators)
		p := newProbe(t, dbtest.Empty(t), nil)
		p.environ = config.Environ()
		var server *httpserver.Server
		p.build = func(c *chassis.Chassis) {
			var err error
			if server, err = c.AddListener("api", "127.0.0.1:0", httpserver.Docs{}); err != nil {
				t.Error(err)
			}
		}
		c, err := p.new(t)
		if err != nil {
			t.Fatal(err)
		}

		for header, want := range map[string]bool{"Traceparent " + w3c: joins.w3c, "B3 " + b3: joins.b3} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/missing", http.NoBody)
			name, value, _ := strings.Cut(header, " ")
			r.Header.Set(name, value)
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			if joined := strings.Contains(w.Body.String(), trace); joined != want {
				t.Errorf("OTEL_PROPAGATORS=%q: a request with %s joined its trace: %t, want %t", propagators, header, joined, want)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
