package telemetry

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newSpanCounter returns the metric of the recorded spans. All its series exist from the start, because increase()
// misses the first event of a series.
func newSpanCounter() *prometheus.CounterVec {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rowlock_trace_spans_total",
		Help: "Recorded spans by outcome: exported; failed, if the collector refused at least one of their batch or " +
			"did not answer; dropped, if the queue was full.",
	}, []string{"outcome"})
	for _, outcome := range []string{"exported", "failed", "dropped"} {
		spans.WithLabelValues(outcome)
	}
	return spans
}

// countedSpans is the SDK's queue of spans with its exporter, counted. The SDK silently drops spans that do not fit
// into its queue, and its metrics for that are experimental and process-wide. So OnEnd admits only as many spans as
// fit, including those being exported, and counts the others as dropped.
type countedSpans struct {
	sdktrace.SpanProcessor // the queue

	counter *prometheus.CounterVec // by outcome
	size    int64
	pending atomic.Int64
}

func newCountedSpans(exporter sdktrace.SpanExporter, size int, counter *prometheus.CounterVec) *countedSpans {
	c := &countedSpans{counter: counter, size: int64(size)}
	c.SpanProcessor = sdktrace.NewBatchSpanProcessor(countedExporter{exporter, c}, sdktrace.WithMaxQueueSize(size))
	return c
}

// OnEnd queues a span, or drops it. It never waits.
func (c *countedSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}

	pending := c.pending.Add(1)
	if pending > c.size {
		c.pending.Add(-1)
		c.counter.WithLabelValues("dropped").Inc()
		return
	}
	c.SpanProcessor.OnEnd(s)
}

// countedExporter counts what leaves the queue.
type countedExporter struct {
	sdktrace.SpanExporter

	queue *countedSpans
}

// ExportSpans sends spans to the collector once: the exporter inside retries.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.pending.Add(-int64(len(spans)))

	outcome := "exported"
	if err != nil {
		outcome = "failed"
	}
	e.queue.counter.WithLabelValues(outcome).Add(float64(len(spans)))
	return err
}
