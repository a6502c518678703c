package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// gate is an exporter that takes spans when it is let, with the answer that it is given.
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

// Every recorded span is in one of the books, to the last one: those that the queue had
// no room for while the collector stalled, those that it refused, those that it took.
func TestSpansAreCounted(t *testing.T) {
	t.Parallel()
	const room = 8
	exporter := gate{make(chan error)}
	vec, counters := newSpanCounters()
	registry := prometheus.NewRegistry()
	registry.MustRegister(vec)
	queue := newCountedSpans(exporter, environ{queueSize: strconv.Itoa(room)}, counters)
	provider := NewProvider(queue)
	end := func(n int) {
		for range n {
			_, span := provider.Tracer("test").Start(t.Context(), "x")
			span.End()
		}
	}
	counted := func(outcome string, want float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families[0].GetMetric() {
			if got := m.GetCounter().GetValue(); m.GetLabel()[0].GetValue() == outcome && got != want {
				t.Errorf("%g are %s, want %g", got, outcome, want)
			}
		}
	}
	end(room + 5) // nothing leaves the queue, nor what is under way, before the exporter answers
	counted("dropped", 5)
	flushed := make(chan error)
	go func() { flushed <- queue.ForceFlush(t.Context()) }()
	exporter.answers <- errors.New("the collector is full")
	if err := <-flushed; err == nil {
		t.Error("nothing failed")
	}
	counted("failed", room)
	counted("dropped", 5)

	end(room) // there is room again
	go func() { flushed <- provider.Shutdown(t.Context()) }()
	exporter.answers <- nil
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	counted("exported", room)
	counted("dropped", 5)
}

// A collector that is away and any other trouble have a line each, and say how many
// were left out only where some were.
func TestFailuresHaveTheirOwnLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handle := errorHandler(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)))
	for range 3 {
		handle(errors.New("bad resource"))
		handle(fmt.Errorf("traces: %w", exportError{errors.New("away")}))
	}
	log := out.String()
	if strings.Count(log, "\n") != 2 || !strings.Contains(log, "bad resource") || !strings.Contains(log, "away") ||
		strings.Contains(log, "omitted") {
		t.Error(log)
	}
}
