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

// attributeCode is the error table's code for the failure of an operation.
const attributeCode = attribute.Key("rowlock.code")

// Describe returns an error's code from a closed list, and whether the service or its dependencies are at fault; for a
// client's mistake they are not. ctx is the request's context.
type Describe func(ctx context.Context, err error) (code string, fault bool)

// Operations creates a span for each operation of a service, between the span of the request and the spans of the
// statements. It exists only if tracing is on.
type Operations struct {
	tracer   trace.Tracer
	describe Describe
}

// NewOperations returns the Operations of a service.
func NewOperations(provider trace.TracerProvider, service string, describe Describe) *Operations {
	return &Operations{tracer: provider.Tracer("github.com/rowlock/rowlock/services/" + service), describe: describe}
}

// Start begins an operation, whose name is a constant such as "counts.increase", and returns the function that ends it.
// The caller defers that function with a pointer to its error: the span gets the error's code, never its text, which
// may quote a client's input. A panic fails the span and continues. Failures after the client has left do not fail the
// span. If the request is not recorded, Start does nothing.
func (o *Operations) Start(
	ctx context.Context, name string, options ...trace.SpanStartOption,
) (operation context.Context, end func(*error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func(*error) {}
	}
	ctx, span := o.tracer.Start(ctx, name, options...)
	return ctx, func(err *error) {
		defer span.End()
		if p := recover(); p != nil {
			fail(span, problem.Internal.Code(), true)
			panic(p)
		}

		if *err != nil && span.IsRecording() {
			code, fault := o.describe(ctx, *err)
			fail(span, code, fault && !errors.Is(ctx.Err(), context.Canceled))
		}
	}
}

// StartPoll begins a poll for work as a separate trace, and returns the function that ends it. The trace is exported
// only if the poll found something or failed: workers without work would fill a collector.
//
//nolint:spancheck // the returned function ends it
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

// fail sets the code of an error on a span, and the status Error if it is a fault.
func fail(span trace.Span, code string, fault bool) {
	span.SetAttributes(attributeCode.String(code))
	if fault {
		span.SetAttributes(semconv.ErrorTypeKey.String(code))
		span.SetStatus(codes.Error, "")
	}
}
