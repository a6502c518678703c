package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// traced starts a replica whose spans are recorded.
func traced(t *testing.T, changes ...func(*config)) (
	*rig, trace.Tracer, *tracetest.SpanRecorder,
) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = -1 // the package has its own bound
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithRawSpanLimits(limits))
	with := func(c *config) { c.TracerProvider = provider }
	return start(t, append(changes, with)...), provider.Tracer("test"), spans
}

// groups returns the ended spans of groups.
func groups(spans *tracetest.SpanRecorder) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != "batch rig_add" })
}

func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) any {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// A group's span is the child of one of its recorded requests and linked to all of them, up to a bound.
func TestGroupIsLinkedToItsRequests(t *testing.T) {
	t.Parallel()
	const requests, bound = 150, 128
	goOn := make(chan struct{})
	r, tracer, spans := traced(t, func(c *config) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			<-goOn
			return add(ctx, s, a, group)
		}
	})

	first := r.doAll(t.Context(), 1, request{key: "key-0"}) // without a span; the others gather behind it
	waittest.Eventually(t, "it is sent", func() bool { return r.metric(t, "rowlock_coalesce_batch_size_count") == 1 })
	answers := make(chan error, requests)
	for range requests {
		go func() {
			ctx, span := tracer.Start(t.Context(), "request")
			_, err := r.Do(ctx, request{key: "key-0"})
			span.End()
			answers <- err
		}()
	}
	r.wantQueue(t, requests)
	close(goOn)
	want(t, answers, requests, nil)
	want(t, first, 1, nil)

	found := groups(spans)
	if len(found) != 1 {
		t.Fatalf("%d spans of groups, want 1: that of a group without a recorded request is none", len(found))
	}
	group := found[0]
	if !group.Parent().IsValid() || group.Parent().TraceID() != group.SpanContext().TraceID() {
		t.Errorf("the parent is %v", group.Parent())
	}
	if len(group.Links()) != bound || attributeOf(group, "rowlock.batch.requests_recorded") != int64(requests) ||
		attributeOf(group, "rowlock.batch.outcome") != "done" || group.Status().Code != codes.Unset {
		t.Errorf("%d links, %v, %v", len(group.Links()), group.Attributes(), group.Status())
	}
	back := 0
	for _, span := range spans.Ended() {
		if span.Name() == "request" && len(span.Links()) == 1 &&
			span.Links()[0].SpanContext.Equal(group.SpanContext()) {
			back++
		}
	}
	if back != requests-1 { // the parent needs none
		t.Errorf("%d requests lead to their group, want %d", back, requests-1)
	}
}

// Each sending is a span that says how it ended. Only a failure sets the error status, without a text.
func TestOutcomeOfASending(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key    string
		locked bool
		fails  error
		want   []string
	}{
		"done":                 {key: "key-0", want: []string{"done"}},
		"an error":             {key: "key-0", fails: errors.New("s3cret"), want: []string{"error"}},
		"the database refuses": {key: "full", want: []string{"split"}},
		"locked":               {key: "key-0", locked: true, want: []string{"lock_wait", "done"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tracer, spans := traced(t, func(c *config) {
				c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
					return errors.Join(tc.fails, add(ctx, s, a, group))
				}
			})
			release := func() {}
			if tc.locked {
				release = r.hold(t, tc.key).Rollback
			}

			ctx, span := tracer.Start(t.Context(), "request")
			answer := make(chan error, 1)
			go func() { _, err := r.Do(ctx, request{key: tc.key}); answer <- err }()
			if tc.locked {
				r.wantLanes(t, 1)
			}
			release()
			if err := <-answer; err == nil && tc.fails != nil {
				t.Error("the error got lost")
			}
			span.End()

			var got []string
			for _, g := range groups(spans) {
				outcome := fmt.Sprint(attributeOf(g, "rowlock.batch.outcome"))
				got = append(got, outcome)
				if (g.Status().Code == codes.Error) != (outcome == "error") || g.Status().Description != "" {
					t.Errorf("%s: the status is %v", outcome, g.Status())
				}
			}
			if !slices.Equal(slices.Compact(got), tc.want) {
				t.Errorf("outcomes %q, want %q", got, tc.want)
			}
		})
	}
}
