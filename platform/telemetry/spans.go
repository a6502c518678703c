package telemetry

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newSpanCounter returns the metric of the recorded spans. Its series exist from the start: increase() does not see a
// counter that appears with its first event.
func newSpanCounter() *prometheus.CounterVec {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rowlock_trace_spans_total",
		Help: "Recorded spans by outcome: exported; failed, when the collector refused at least one of their batch or " +
			"did not answer; dropped, when the queue was full.",
	}, []string{"outcome"})
	for _, outcome := range []string{"exported", "failed", "dropped"} {
		spans.WithLabelValues(outcome)
	}
	return spans
}

// countedSpans is the SDK's queue of spans with its exporter, counted. The SDK drops silently what its queue cannot
// hold, and its own metrics of that are experimental and process-wide; so no more spans are let in than the queue
// holds, those being exported included, and the others are counted as dropped.
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
	switch {
	case !s.SpanContext().IsSampled():
	case c.pending.Add(1) > c.size:
		c.pending.Add(-1)
		c.counter.WithLabelValues("dropped").Inc()
	default:
		c.SpanProcessor.OnEnd(s)
	}
}

// countedExporter counts what leaves the queue.
type countedExporter struct {
	sdktrace.SpanExporter

	queue *countedSpans
}

// ExportSpans sends spans to the collector once: the exporter inside has its own retries.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.pending.Add(-int64(len(spans)))
	outcome := "exported"
	if err != nil {
		outcome = "failed"
	}
	e.queue.counter.WithLabelValues(outcome).Add(float64(len(spans)))
	return err //nolint:wrapcheck // the SDK reports it
}
