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

// attributeCode holds the code of the error table with which an operation failed.
const attributeCode = attribute.Key("rowlock.code")

// Describe returns the code of an error from a closed list, and whether it is a fault of the service or of what it
// depends on; a client's mistake is none. ctx is that of the request.
type Describe func(ctx context.Context, err error) (code string, fault bool)

// Operations makes a span of each thing that a service does: between the span of the request and those of the
// statements. It is made only where tracing is on.
type Operations struct {
	tracer   trace.Tracer
	describe Describe
}

// NewOperations returns the Operations of a service.
func NewOperations(provider trace.TracerProvider, service string, describe Describe) *Operations {
	return &Operations{tracer: provider.Tracer("github.com/rowlock/rowlock/services/" + service), describe: describe}
}

// Start begins an operation, whose name is a constant such as "counts.increase", and returns the function that ends
// it. The caller defers that with a pointer to the error that it returns: the span gets the error's code, never its
// text, which may quote what a client sent. A panic fails the span and goes on. What fails after the caller has left
// does not fail the span. In a request that is not recorded Start does nothing.
func (o *Operations) Start(
	ctx context.Context, name string, options ...trace.SpanStartOption,
) (operation context.Context, end func(*error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func(*error) {}
	}
	ctx, span := o.tracer.Start(ctx, name, options...)
	return ctx, func(err *error) {
		defer span.End()
		if p := recover(); p != nil { //nolint:revive // the caller defers this function itself
			fail(span, problem.Internal.Code(), true)
			panic(p)
		}
		if *err != nil && span.IsRecording() {
			code, fault := o.describe(ctx, *err)
			fail(span, code, fault && !errors.Is(ctx.Err(), context.Canceled))
		}
	}
}

// StartPoll begins a look for work as a trace of its own, and returns the function that ends it. The trace is
// exported only when the poll found something or failed: those of workers without work would fill a collector.
//
//nolint:spancheck // the function that is returned ends it
func (o *Operations) StartPoll(ctx context.Context, name string) (context.Context, func(found int, err error)) {
	ctx, span := o.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attributePoll.Bool(true)))
	return ctx, func(found int, err error) {
		span.SetAttributes(attributeFound.Int(found))
		if err != nil {
			code, _ := o.describe(ctx, err)
			fail(span, code, true)
		}
		span.End()
	}
}

// fail gives a span the code of an error, and the status Error when that is a fault.
func fail(span trace.Span, code string, fault bool) {
	span.SetAttributes(attributeCode.String(code))
	if fault {
		span.SetAttributes(semconv.ErrorTypeKey.String(code))
		span.SetStatus(codes.Error, "")
	}
}
