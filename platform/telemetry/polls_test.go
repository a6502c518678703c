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
	ops := NewOperations(NewProvider(spans), "test", func(context.Context, error) (string, bool) { return "CODE", false })
	func() {
		defer func() {
			if p := recover(); p != "s3cret" {
				t.Errorf("the panic became %v", p)
			}
		}()
		var err error
		_, end := ops.Start(t.Context(), "operation")
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
