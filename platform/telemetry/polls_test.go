package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// The spans of a poll that finds nothing are dropped; those of one that finds something or fails are passed on, and
// so is what has no part in a poll.
func TestIdlePollsAreDropped(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	filter := withoutIdlePolls(spans)
	provider := NewProvider(filter)
	ops := NewOperations(provider, "test", func(context.Context, error) (string, bool) { return "CODE", true })
	poll := func(name string, found int, err error) {
		ctx, end := ops.StartPoll(t.Context(), name)
		for range 2 {
			_, below := provider.Tracer("x").Start(ctx, "statement of "+name)
			below.End()
		}
		// Another trace, while the poll is open.
		_, other := provider.Tracer("x").Start(t.Context(), "other during "+name)
		other.End()
		end(found, err)
	}
	poll("idle", 0, nil)
	poll("busy", 3, nil)
	poll("failed", 0, errors.New("s3cret"))
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
	}
	want := []string{
		"other during idle",
		"other during busy", "statement of busy", "statement of busy", "busy",
		"other during failed", "statement of failed", "statement of failed", "failed",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if n := len(filter.held); n != 0 {
		t.Errorf("%d polls are open", n)
	}
}

// A fault and a panic fail the operation's span, what fails after the caller has left does not; no text of an error
// and no value of a panic stands in it.
func TestOperationFails(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := NewProvider(spans)
	ops := NewOperations(provider, "test", func(context.Context, error) (string, bool) { return "CODE", true })
	for name, want := range map[string]codes.Code{"fault": codes.Error, "left": codes.Unset, "panic": codes.Error} {
		spans.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		ctx, request := provider.Tracer("test").Start(ctx, "request")
		func() {
			defer func() {
				if p := recover(); (p == "s3cret") != (name == "panic") {
					t.Errorf("%s: the panic became %v", name, p)
				}
			}()
			err := errors.New("s3cret")
			ctx, end := ops.Start(ctx, "operation")
			defer end(&err)
			switch name {
			case "left":
				cancel()
				err = ctx.Err()
			case "panic":
				panic("s3cret")
			}
		}()
		cancel()
		request.End()
		span := spans.Ended()[0]
		all := fmt.Sprint(span.Attributes(), span.Status(), span.Events())
		coded := strings.Contains(all, map[bool]string{true: "INTERNAL", false: "CODE"}[name == "panic"])
		if span.Name() != "operation" || span.Status().Code != want || !coded || strings.Contains(all, "s3cret") {
			t.Errorf("%s: %s %s", name, span.Name(), all)
		}
	}

	spans.Reset()
	err := errors.New("a request that is not recorded")
	_, end := ops.Start(t.Context(), "operation")
	end(&err)
	if n := len(spans.Started()); n != 0 {
		t.Errorf("%d spans of a request that is not recorded", n)
	}
}
