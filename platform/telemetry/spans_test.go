package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// gate is an exporter that takes spans when the test lets it, and answers what the test says.
type gate struct{ answers chan error }

func (g gate) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case err := <-g.answers:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (gate) Shutdown(context.Context) error { return nil }

// Every recorded span is counted once: dropped while the collector stalled and the queue was full, failed or exported.
func TestSpansAreCounted(t *testing.T) {
	t.Parallel()
	const size = 8
	exporter := gate{make(chan error)}
	counter := newSpanCounter()
	queue := newCountedSpans(exporter, size, counter)
	provider := NewProvider(queue)
	end := func(n int) {
		for range n {
			_, span := provider.Tracer("test").Start(t.Context(), "x")
			span.End()
		}
	}
	want := func(exported, failed, dropped float64) {
		t.Helper()
		for outcome, want := range map[string]float64{"exported": exported, "failed": failed, "dropped": dropped} {
			if got := testutil.ToFloat64(counter.WithLabelValues(outcome)); got != want {
				t.Errorf("%g spans are %s, want %g", got, outcome, want)
			}
		}
	}
	end(size + 5) // nothing leaves the queue before the exporter answers
	want(0, 0, 5)
	flushed := make(chan error)
	go func() { flushed <- queue.ForceFlush(t.Context()) }()
	exporter.answers <- errors.New("the collector is full")
	if err := <-flushed; err == nil {
		t.Error("nothing failed")
	}
	want(0, size, 5)

	end(size) // the queue is empty again
	go func() { flushed <- provider.Shutdown(t.Context()) }()
	exporter.answers <- nil
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	want(size, size, 5)
}

func TestSparse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSparse(3, time.Second)
		for second, want := range []int{0, 7} {
			passed, omitted := 0, 0
			for range 10 {
				if left, ok := s.Allow(); ok {
					passed++
					omitted += left
				}
			}
			if passed != 3 || omitted != want {
				t.Errorf("second %d: %d lines passed, %d omitted, want 3 and %d", second, passed, omitted, want)
			}
			time.Sleep(time.Second)
		}
	})
}
