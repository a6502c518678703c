package traces

import (
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// TestReceiverIsAwayOrStalled: the requests do not notice, the log says so once,
// and the process ends in time and well.
func TestReceiverIsAwayOrStalled(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]func(*testing.T) string{
		"away":    nobody,
		"stalled": stalled,
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+strings.TrimSuffix(protocol, "/protobuf"), func(t *testing.T) {
				t.Parallel()
				dsn := dbtest.Empty(t)
				untraced := run(t, "counts", dsn)
				s, c := run(t, "counts", dsn, map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint(t), "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
					// Small figures, so that exports fail and the queue overflows at once.
					"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_BSP_EXPORT_TIMEOUT": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "100",
					"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
				}), client(t)
				s.send(t, c, requestOf(http.MethodPost, "/api/v1/internal/counts", `{"itemId":"a"}`))
				// By turns with a replica that traces nothing, so that a busy machine is not the receiver's fault.
				sent, all, worst := 0, map[*service]time.Duration{s: 0, untraced: 0}, map[*service]time.Duration{}
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end) || sent < 50; sent++ {
					for one := range all {
						a := one.send(t, c, requestOf(http.MethodPost, "/api/v1/counts/a/increase", ""))
						if a.status != http.StatusOK {
							t.Fatalf("%d %s", a.status, a.body)
						}
						all[one] += a.took
						worst[one] = max(worst[one], a.took)
					}
				}
				if extra := (all[s] - all[untraced]) / time.Duration(sent); extra > 20*time.Millisecond+all[untraced]/time.Duration(sent) {
					t.Errorf("%d requests, each took %s longer than without a receiver (%s)", sent, extra, all[untraced]/time.Duration(sent))
				}
				// One that waits for the receiver is lost in the mean of many.
				if worst[s] > 2*worst[untraced]+time.Second {
					t.Errorf("the slowest of %d requests took %s, without a receiver %s", sent, worst[s], worst[untraced])
				}
				lost := s.metric(t, `rowlock_trace_spans_total{outcome="failed"}`) + s.metric(t, `rowlock_trace_spans_total{outcome="dropped"}`)
				if taken := s.metric(t, `rowlock_trace_spans_total{outcome="exported"}`); lost < 1 || taken != 0 {
					t.Errorf("%g spans are counted as lost, %g as exported", lost, taken)
				}
				if n := s.log.count(`"msg":"opentelemetry"`) + s.log.count(`"msg":"grpc"`); n != 1 {
					t.Errorf("%d lines about the receiver: %q", n, s.log.all())
				}
				if took := s.stop(t); took > 8*time.Second {
					t.Errorf("it took %s to stop", took)
				}
				if s.log.count(`"level":"ERROR"`) != 0 {
					t.Errorf("%q", s.log.all())
				}
			})
		}
	}
}

// stalled is the endpoint of a receiver that never answers.
func stalled(t *testing.T) string {
	t.Helper()
	return collector.StartStalled(t).Endpoint()
}

// nobody is an endpoint at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// TestShutdownSendsTheLastSpans: what waits for its turn is sent at the end.
func TestShutdownSendsTheLastSpans(t *testing.T) {
	t.Parallel()
	spans := collector.Start(t)
	patient := spans.Environ()
	maps.Copy(patient, map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "3600000"})
	s := run(t, "counts", dbtest.Empty(t), patient)
	a := s.send(t, client(t), requestOf(http.MethodGet, "/api/v1/internal/counts/none", ""))
	if n := len(spans.Spans()); n != 0 {
		t.Fatalf("%d spans came before the end", n)
	}
	s.stop(t)
	const want = "GET /api/v1/internal/counts/{itemId}\n  counts.get\n    SELECT counts.count_values\n"
	if tree := collector.Tree(spans.Trace(a.trace), caller); tree != want {
		t.Errorf("after the end there is\n%swant\n%s", tree, want)
	}
}

// TestSampling: with a ratio of nothing a request that comes without a decision is
// not traced, and one that is sampled by its caller is; and the caller has no say
// where the operator says so.
func TestSampling(t *testing.T) {
	t.Parallel()
	for sampler, want := range map[string]bool{"parentbased_traceidratio": true, "traceidratio": false} {
		t.Run(sampler, func(t *testing.T) {
			t.Parallel()
			spans := collector.Start(t)
			s := run(t, "events-serve", dbtest.Empty(t), spans.Environ(),
				map[string]string{"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": "0"})
			c := client(t)
			asked := s.send(t, c, requestOf(http.MethodPost, "/events", ""))
			for range 10 {
				alone := requestOf(http.MethodPost, "/events", "")
				alone.header = map[string]string{"Traceparent": "none"}
				s.send(t, c, alone)
			}
			s.stop(t)
			for _, span := range spans.Spans() {
				if span.Trace != asked.trace {
					t.Errorf("%s was exported", span.Name)
				}
			}
			if got := len(spans.Trace(asked.trace)) > 0; got != want {
				t.Errorf("the caller's trace was exported: %v, want %v", got, want)
			}
		})
	}
}
