package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A poll that finds nothing leaves nothing; one that finds something or fails, and
// whatever else goes on meanwhile, is passed on.
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
		// Somebody else's, while the poll is open.
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
	if n := filter.open.Load(); n != 0 || len(filter.held) != 0 {
		t.Errorf("%d polls are open, %d held", n, len(filter.held))
	}
}

// A panic fails the operation's span, leaves nothing of its value there and goes on.
func TestPanicFailsTheOperation(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := NewProvider(spans)
	ops := NewOperations(provider, "test", func(context.Context, error) (string, bool) { return "CODE", false })
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	defer request.End()
	func() {
		defer func() {
			if p := recover(); p != "s3cret" {
				t.Errorf("the panic became %v", p)
			}
		}()
		var err error
		_, end := ops.Start(ctx, "operation")
		defer end(&err)
		panic("s3cret")
	}()
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Status().Code != codes.Error || ended[0].Status().Description != "" || len(ended[0].Events()) != 0 {
		t.Fatalf("%+v", ended)
	}
	if got := fmt.Sprint(ended[0].Attributes()); strings.Contains(got, "s3cret") || !strings.Contains(got, "INTERNAL") {
		t.Errorf("attributes %s", got)
	}
}

// What fails because its caller has left is no failure of the operation, and an
// operation of a request that is not recorded has no span.
func TestOperationsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := NewProvider(spans)
	ops := NewOperations(provider, "test", func(context.Context, error) (string, bool) { return "CODE", true })
	for _, left := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, request := provider.Tracer("test").Start(ctx, "request")
		ctx, end := ops.Start(ctx, "operation")
		if left {
			cancel()
		}
		err := ctx.Err()
		if err == nil {
			err = errors.New("broken")
		}
		end(&err)
		request.End()
		cancel()
		span := spans.Ended()[0]
		want := codes.Error
		if left {
			want = codes.Unset
		}
		if span.Name() != "operation" || span.Status().Code != want || !strings.Contains(fmt.Sprint(span.Attributes()), "CODE") {
			t.Errorf("left %t: %s, %v, %v", left, span.Name(), span.Status(), span.Attributes())
		}
		spans.Reset()
	}
	_, end := ops.Start(t.Context(), "operation")
	end(new(error))
	if n := len(spans.Started()); n != 0 {
		t.Errorf("%d spans of a request that is not recorded", n)
	}
}

func TestSparse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSparse(3, time.Second)
		passed := func() (n, omitted int) {
			for range 10 {
				if left, ok := s.Allow(); ok {
					n++
					omitted += left
				}
			}
			return n, omitted
		}
		if n, omitted := passed(); n != 3 || omitted != 0 {
			t.Errorf("%d lines, %d omitted", n, omitted)
		}
		time.Sleep(time.Second)
		if n, omitted := passed(); n != 3 || omitted != 7 {
			t.Errorf("in the next second %d lines, %d omitted", n, omitted)
		}
	})
}
