package telemetry

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanCounters count the recorded spans by outcome.
type spanCounters struct{ exported, failed, dropped prometheus.Counter }

// newSpanCounters returns the metric and its three series, which exist from the start: increase() does not see a
// counter that appears with its first event.
func newSpanCounters() (*prometheus.CounterVec, spanCounters) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rowlock_trace_spans_total",
		Help: "Recorded spans by outcome: exported; failed, when the collector refused at least one of their batch or " +
			"did not answer; dropped, when the queue was full.",
	}, []string{"outcome"})
	counter := func(outcome string) prometheus.Counter { return vec.WithLabelValues(outcome) }
	return vec, spanCounters{exported: counter("exported"), failed: counter("failed"), dropped: counter("dropped")}
}

// countedSpans is the SDK's queue of spans with its exporter, counted. The SDK drops silently what its queue cannot
// hold, and its own metrics of that are experimental and process-wide; so no more spans are let in than the queue
// holds, those being exported included, and the others are counted as dropped.
type countedSpans struct {
	sdktrace.SpanProcessor // the queue

	counters spanCounters
	size     int64
	pending  atomic.Int64
}

func newCountedSpans(exporter sdktrace.SpanExporter, size int, counters spanCounters) *countedSpans {
	c := &countedSpans{counters: counters, size: int64(size)}
	c.SpanProcessor = sdktrace.NewBatchSpanProcessor(countedExporter{exporter, c}, sdktrace.WithMaxQueueSize(size))
	return c
}

// OnEnd queues a span, or drops it. It never waits.
func (c *countedSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case c.pending.Add(1) > c.size:
		c.pending.Add(-1)
		c.counters.dropped.Inc()
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
	if err != nil {
		e.queue.counters.failed.Add(float64(len(spans)))
	} else {
		e.queue.counters.exported.Add(float64(len(spans)))
	}
	return err //nolint:wrapcheck // the SDK reports it
}
