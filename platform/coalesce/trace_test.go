package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// recording is a provider whose spans can be looked at.
func recording() (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = -1 // the package has a bound of its own
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithRawSpanLimits(limits)), spans
}

// batches are the ended spans of groups, in the order in which they ended.
func batches(spans *tracetest.SpanRecorder) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != "batch test" })
}

func valueOf(s sdktrace.ReadOnlySpan, key attribute.Key) any {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// group runs requests of these contexts as one group, after a request without a span.
func group(t *testing.T, provider trace.TracerProvider, contexts []context.Context) {
	t.Helper()
	tbl := newTable("a")
	gate := tbl.gate()
	cfg := tbl.config()
	cfg.Name, cfg.TracerProvider = "test", provider
	c := start(t, cfg)
	results := send(t.Context(), c, add{key: "a", n: 1})
	for i, ctx := range contexts {
		results = append(results, send(ctx, c, add{id: i + 1, key: "a", n: 1})...)
	}
	close(gate)
	wantAll(t, results...)
	if got := tbl.groupSizes(); !slices.Equal(got, []int{1, len(contexts)}) {
		t.Errorf("groups of %v", got)
	}
}

func TestGroupIsLinkedToItsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider, spans := recording()
		unsampled := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
		}))
		contexts := []context.Context{t.Context(), unsampled} // neither is recorded
		var requests []trace.Span
		for range 5 {
			ctx, span := provider.Tracer("test").Start(t.Context(), "request")
			contexts, requests = append(contexts, ctx), append(requests, span)
		}
		group(t, provider, contexts)
		for _, r := range requests {
			r.End()
		}
		found := batches(spans)
		if len(found) != 1 {
			t.Fatalf("%d spans of groups, want 1", len(found))
		}
		batch, first := found[0], requests[0].SpanContext()
		if batch.Parent().SpanID() != first.SpanID() || batch.SpanContext().TraceID() != first.TraceID() {
			t.Errorf("the parent is %v, want the first recorded request %v", batch.Parent(), first)
		}
		if len(batch.Links()) != len(requests) {
			t.Errorf("%d links, want %d", len(batch.Links()), len(requests))
		}
		for i, link := range batch.Links() {
			if !link.SpanContext.Equal(requests[i].SpanContext()) {
				t.Errorf("link %d leads to %v", i, link.SpanContext)
			}
		}
		if valueOf(batch, "rowlock.batch.requests") != int64(7) ||
			valueOf(batch, "rowlock.batch.requests_recorded") != int64(5) ||
			valueOf(batch, "rowlock.batch.outcome") != "done" || batch.Status().Code != codes.Unset {
			t.Errorf("attributes %v, status %v", batch.Attributes(), batch.Status())
		}
		for i, r := range requests {
			ended, ok := r.(sdktrace.ReadOnlySpan)
			if !ok {
				t.Fatal("no span of the SDK")
			}
			back := ended.Links()
			if i == 0 && len(back) != 0 || i > 0 && (len(back) != 1 || !back[0].SpanContext.Equal(batch.SpanContext())) {
				t.Errorf("request %d has the links %v", i, back)
			}
		}
	})
}

func TestLinksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider, spans := recording()
		var contexts []context.Context
		for range 300 {
			ctx, span := provider.Tracer("test").Start(t.Context(), "request")
			t.Cleanup(func() { span.End() })
			contexts = append(contexts, ctx)
		}
		group(t, provider, contexts)
		found := batches(spans)
		if len(found) != 1 || len(found[0].Links()) != 128 ||
			valueOf(found[0], "rowlock.batch.requests_recorded") != int64(300) {
			t.Errorf("%d groups: %v", len(found), found)
		}
	})
}

// Each run of a group is a span that says how it ended, and how many rows it left to the
// next run because they were locked. Only a failure sets the error status, without a text.
func TestOutcomeOfARunIsRecorded(t *testing.T) {
	t.Parallel()
	type run struct {
		err    error
		locked string // the key of the locked rows
		panics bool
	}
	for name, c := range map[string]struct {
		group    []add
		runs     []run
		outcomes []string
	}{
		"failure": {adds(1, "a"), []run{{err: errors.New("s3cret")}}, []string{"error"}},
		"panic":   {adds(1, "a"), []run{{panics: true}}, []string{"error"}},
		"one of two rows is locked": {
			adds(3, "a", "b"),
			[]run{{err: coalesce.ErrLockWait}, {locked: "a"}, {}},
			[]string{"lock_wait", "partial 2", "done"},
		},
		"the only row is locked": {
			adds(1, "a"),
			[]run{{err: coalesce.ErrLockWait}, {locked: "a"}, {}},
			[]string{"lock_wait", "locked 1", "done"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				provider, spans := recording()
				cfg := newTable().config()
				cfg.TracerProvider = provider
				gate := make(chan struct{})
				runs := c.runs
				cfg.Run = func(_ context.Context, _ coalesce.Pass, group []add) ([]coalesce.Answer[int], error) {
					answers := make([]coalesce.Answer[int], len(group))
					if group[0].key == "first" { // the others gather behind it
						<-gate
						return answers, nil
					}
					now := runs[0]
					runs = runs[1:]
					if now.panics {
						panic("s3cret")
					}
					for i, q := range group {
						answers[i].Locked = q.key == now.locked
					}
					return answers, now.err
				}
				coalescer := start(t, cfg)
				first := send(t.Context(), coalescer, add{key: "first"})
				ctx, request := provider.Tracer("test").Start(t.Context(), "request")
				results := send(ctx, coalescer, c.group...)
				close(gate)
				for _, r := range append(first, results...) {
					<-r // the spans are what is looked at
				}
				request.End()
				var outcomes []string
				for _, b := range batches(spans) {
					outcome := fmt.Sprint(valueOf(b, "rowlock.batch.outcome"))
					if locked := valueOf(b, "rowlock.batch.locked"); locked != nil {
						outcome += fmt.Sprint(" ", locked)
					}
					outcomes = append(outcomes, outcome)
					if (b.Status().Code == codes.Error) != (outcome == "error") || b.Status().Description != "" ||
						len(b.Events()) != 0 {
						t.Errorf("%s: status %v, events %v", outcome, b.Status(), b.Events())
					}
				}
				if !slices.Equal(outcomes, c.outcomes) {
					t.Errorf("outcomes %q, want %q", outcomes, c.outcomes)
				}
			})
		})
	}
}

// callAllocs is what a request alone in its group cost before there was tracing:
// the call, its channel, and what carries the group.
const callAllocs = 10

// TestTracingOffCostsNothing: a request costs no more memory than before there was
// tracing, and none more where it is on and the request is not recorded.
//
//nolint:paralleltest // AllocsPerRun requires to run alone
func TestTracingOffCostsNothing(t *testing.T) {
	provider, _ := recording()
	for name, provider := range map[string]trace.TracerProvider{"off": nil, "not recorded": provider} {
		cfg := newTable("a").config()
		cfg.TracerProvider = provider
		answers := make([]coalesce.Answer[int], 1)
		cfg.Run = func(context.Context, coalesce.Pass, []add) ([]coalesce.Answer[int], error) { return answers, nil }
		c, ctx := start(t, cfg), t.Context()
		allocs := testing.AllocsPerRun(2000, func() {
			if _, err := c.Do(ctx, add{key: "a", n: 1}); err != nil {
				t.Error(err)
			}
		})
		if allocs > callAllocs {
			t.Errorf("%s: %v allocations, want at most %d", name, allocs, callAllocs)
		}
	}
}
