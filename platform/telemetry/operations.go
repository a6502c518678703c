package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// attributeCode is the code of the error table by which an operation failed.
const attributeCode = attribute.Key("rowlock.code")

// Describe tells the code of an error in the request of ctx, if that is one, from a
// closed list, and whether it is a fault of the service or its neighbours; a client's
// mistake is none.
type Describe func(ctx context.Context, err error) (code string, fault bool)

// Operations makes a span of each thing that a service does: between the request
// that asks for it and the statements that do it. Put it around the service's ports
// where tracing is on; where it is off there is nothing to put around.
type Operations struct {
	tracer   trace.Tracer
	describe Describe
}

// NewOperations returns the maker of a service's spans.
func NewOperations(provider trace.TracerProvider, service string, describe Describe) *Operations {
	return &Operations{tracer: provider.Tracer("github.com/rowlock/rowlock/services/" + service), describe: describe}
}

// Start begins an operation. Its name is a constant such as "counts.increase".
// Whoever began it defers the end, which looks at the error that is returned; the
// error's text stays out of the span, since it may quote what a client sent. A panic
// is a failure of the span too, and goes on; what fails because nobody waits for it any
// more is none. In a request that is not recorded it costs nothing.
//
//nolint:spancheck // the function that is returned ends it
func (o *Operations) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, func(*error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func(*error) {}
	}
	ctx, span := o.tracer.Start(ctx, name, options...)
	return ctx, func(err *error) {
		if p := recover(); p != nil { //nolint:revive // whoever began it defers this function itself
			span.SetAttributes(attributeCode.String(problem.Internal.Code()), semconv.ErrorTypeKey.String(problem.Internal.Code()))
			span.SetStatus(codes.Error, "")
			span.End()
			panic(p)
		}
		if *err != nil && span.IsRecording() {
			code, fault := o.describe(ctx, *err)
			span.SetAttributes(attributeCode.String(code))
			if fault && !errors.Is(ctx.Err(), context.Canceled) {
				span.SetAttributes(semconv.ErrorTypeKey.String(code))
				span.SetStatus(codes.Error, "")
			}
		}
		span.End()
	}
}

// StartPoll begins a look for work that nobody asked for, a trace of its own. It
// is exported, with what happened below it, only when it found something or failed:
// workers that have nothing to do would fill a collector with that.
//
//nolint:spancheck // the function that is returned ends it
func (o *Operations) StartPoll(ctx context.Context, name string) (context.Context, func(found int, err error)) {
	ctx, span := o.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attributePoll.Bool(true)))
	return ctx, func(found int, err error) {
		span.SetAttributes(attributeFound.Int(found))
		if err != nil {
			code, _ := o.describe(ctx, err)
			span.SetAttributes(attributeCode.String(code), semconv.ErrorTypeKey.String(code))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
