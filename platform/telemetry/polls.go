package telemetry

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	attributePoll  = attribute.Key("rowlock.poll")
	attributeFound = attribute.Key("rowlock.poll.found")
)

// maxHeld bounds the spans that wait for the end of one poll: a poll that has
// nothing to do makes a handful.
const maxHeld = 256

// idlePolls holds the spans below a poll back until it ends, and drops them when
// it has found nothing. While no poll is open it costs one look at a counter.
type idlePolls struct {
	sdktrace.SpanProcessor

	open atomic.Int64
	mu   sync.Mutex
	held map[trace.TraceID][]sdktrace.ReadOnlySpan
}

func withoutIdlePolls(next sdktrace.SpanProcessor) *idlePolls {
	return &idlePolls{SpanProcessor: next, held: make(map[trace.TraceID][]sdktrace.ReadOnlySpan)}
}

// OnStart notes the beginning of a poll.
func (p *idlePolls) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	if !s.Parent().IsValid() && boolOf(s, attributePoll) {
		p.mu.Lock()
		p.held[s.SpanContext().TraceID()] = nil
		p.open.Add(1)
		p.mu.Unlock()
	}
	p.SpanProcessor.OnStart(parent, s)
}

// OnEnd passes a span on, now or when its poll has ended.
func (p *idlePolls) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.open.Load() == 0 {
		p.SpanProcessor.OnEnd(s)
		return
	}
	id := s.SpanContext().TraceID()
	p.mu.Lock()
	held, polled := p.held[id]
	ended := !s.Parent().IsValid()
	switch {
	case polled && ended:
		delete(p.held, id)
		p.open.Add(-1)
	case polled && len(held) < maxHeld:
		p.held[id] = append(held, s)
	}
	p.mu.Unlock()

	switch {
	case !polled:
	case !ended, foundNothing(s):
		return
	default:
		for _, below := range held {
			p.SpanProcessor.OnEnd(below)
		}
	}
	p.SpanProcessor.OnEnd(s)
}

func foundNothing(s sdktrace.ReadOnlySpan) bool {
	if s.Status().Code == codes.Error {
		return false
	}
	for _, a := range s.Attributes() {
		if a.Key == attributeFound {
			return a.Value.AsInt64() == 0
		}
	}
	return false
}

func boolOf(s sdktrace.ReadOnlySpan, key attribute.Key) bool {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.AsBool()
		}
	}
	return false
}
