package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	attributePoll  = attribute.Key("rowlock.poll")
	attributeFound = attribute.Key("rowlock.poll.found")
)

// maxHeld bounds the spans that are held for one poll. A poll that finds nothing creates only a few.
const maxHeld = 256

// idlePolls holds back the spans of a poll until the poll ends, and drops them if it found nothing.
type idlePolls struct {
	sdktrace.SpanProcessor

	mu   sync.Mutex
	held map[trace.TraceID][]sdktrace.ReadOnlySpan // by open poll
}

func withoutIdlePolls(next sdktrace.SpanProcessor) *idlePolls {
	return &idlePolls{SpanProcessor: next, held: make(map[trace.TraceID][]sdktrace.ReadOnlySpan)}
}

// OnStart records the beginning of a poll.
func (p *idlePolls) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	if attributeOf(s, attributePoll).AsBool() && !s.Parent().IsValid() {
		p.mu.Lock()
		p.held[s.SpanContext().TraceID()] = nil
		p.mu.Unlock()
	}
	p.SpanProcessor.OnStart(parent, s)
}

// OnEnd passes a span on, at once or when its poll ends.
func (p *idlePolls) OnEnd(s sdktrace.ReadOnlySpan) {
	held, pass := p.release(s)
	if !pass {
		return
	}
	for _, below := range held {
		p.SpanProcessor.OnEnd(below)
	}
	p.SpanProcessor.OnEnd(s)
}

// release reports whether s may pass now, and returns the held spans that pass before it.
func (p *idlePolls) release(s sdktrace.ReadOnlySpan) (held []sdktrace.ReadOnlySpan, pass bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	id := s.SpanContext().TraceID()
	held, polled := p.held[id]
	switch {
	case !polled:
		return nil, true
	case !s.Parent().IsValid(): // the poll itself
		delete(p.held, id)
		return held, attributeOf(s, attributeFound).AsInt64() > 0 || s.Status().Code == codes.Error
	case len(held) < maxHeld:
		p.held[id] = append(held, s)
	}
	return nil, false
}

func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) (value attribute.Value) {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	return value
}
