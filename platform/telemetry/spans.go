package telemetry

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanCounters tell what became of the spans that were recorded.
type spanCounters struct{ exported, failed, dropped prometheus.Counter }

// newSpanCounters makes them; all are there from the start, for increase() does not
// see a counter that is born with its first event.
func newSpanCounters() (*prometheus.CounterVec, spanCounters) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rowlock_trace_spans_total",
		// The exporter tells only in words how many of a batch were refused.
		Help: "Recorded spans by what became of them: exported; failed, when the collector refused at least one of their batch or did not " +
			"answer; dropped, when the queue was full.",
	}, []string{"outcome"})
	return vec, spanCounters{
		exported: vec.WithLabelValues("exported"), failed: vec.WithLabelValues("failed"), dropped: vec.WithLabelValues("dropped"),
	}
}

// countedSpans is a queue of spans and its exporter, with their books. The SDK drops
// what its queue cannot hold and tells nobody; so no more is let in than the queue
// holds, what is being exported included, and what is refused is counted.
type countedSpans struct {
	sdktrace.SpanProcessor // the queue

	counters spanCounters
	room     int64
	pending  atomic.Int64
}

// newCountedSpans puts a queue before the exporter, of the length that env says.
func newCountedSpans(exporter sdktrace.SpanExporter, env environ, counters spanCounters) *countedSpans {
	room := sdktrace.DefaultMaxQueueSize
	if n, err := strconv.Atoi(env.get(queueSize)); err == nil { // check refuses what is none
		room = n
	}
	c := &countedSpans{counters: counters, room: int64(room)}
	c.SpanProcessor = sdktrace.NewBatchSpanProcessor(countedExporter{exporter, c}, sdktrace.WithMaxQueueSize(room))
	return c
}

// OnEnd queues a span, or drops it. It never waits.
func (c *countedSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if c.pending.Add(1) > c.room {
		c.pending.Add(-1)
		c.counters.dropped.Inc()
		return
	}
	c.SpanProcessor.OnEnd(s)
}

// countedExporter exports what comes out of the queue.
type countedExporter struct {
	sdktrace.SpanExporter

	books *countedSpans
}

// ExportSpans sends spans to the collector, once: the exporter has its own retries.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.books.pending.Add(-int64(len(spans)))
	if err != nil {
		e.books.counters.failed.Add(float64(len(spans)))
		return exportError{err}
	}
	e.books.counters.exported.Add(float64(len(spans)))
	return nil
}

// exportError is a failure of the collector, or on the way to it: it has log lines of
// its own, which no other error of OpenTelemetry's uses up.
type exportError struct{ error }

// Unwrap is for errors.Is.
func (e exportError) Unwrap() error { return e.error }
