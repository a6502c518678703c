package sqldb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// TestTracing: statements inside a recorded span get spans of their own, others
// none, and none shows a value or the server's sentence about one.
func TestTracing(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	db := open(t, counterDatabase(t), func(s *sqldb.Settings) { s.TracerProvider = provider })
	if err := incrementOnce(db)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if spans := recorder.Ended(); len(spans) != 0 {
		t.Errorf("%d spans without a parent", len(spans))
	}
	ctx, parent := provider.Tracer("test").Start(t.Context(), "request")
	var n int
	for what, err := range map[string]error{
		"once": incrementOnce(db)(ctx), "transaction": incrementTx(db)(ctx), "read": db.GetContext(ctx, &n, "SELECT n FROM counter"),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	err := db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE counter SET n = $1::text::bigint`, "s3cret")
		return err
	})
	if err == nil {
		t.Fatal("the bad statement passed")
	}
	parent.End()

	var names, failed []string
	for _, span := range recorder.Ended() {
		if span.SpanContext().TraceID() != parent.SpanContext().TraceID() {
			t.Errorf("the span %s is in another trace", span.Name())
		}
		if text := fmt.Sprint(span.Status().Description, span.Events(), span.Attributes()); strings.Contains(text, "s3cret") {
			t.Errorf("the span %s shows a value: %s", span.Name(), text)
		}
		if span.Status().Code == codes.Error {
			failed = append(failed, span.Name()+fmt.Sprint(attributesOf(span)["error.type"], attributesOf(span)["db.response.status_code"]))
		}
		if span.Name() != "connect" && !strings.HasPrefix(span.Name(), "SET") { // a pool opens what it needs
			names = append(names, span.Name())
		}
	}
	slices.Sort(names)
	want := []string{
		"BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SELECT counter", "UPDATE counter", "UPDATE counter", "request", "UPDATE counter",
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "UPDATE counter") || strings.HasSuffix(failed[0], "<nil>") {
		t.Errorf("failed spans %q", failed)
	}
}

func attributesOf(span sdktrace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// TestTracingOffCostsNothing: without a provider there is no wrapper, and a
// statement outside a recorded trace costs no memory where there is one.
//
//nolint:paralleltest // AllocsPerRun wants to be alone
func TestTracingOffCostsNothing(t *testing.T) {
	if sqldb.IsWrapped(sqldb.Settings{URL: "postgres://x"}) {
		t.Error("a connection without tracing is wrapped")
	}
	recorder := tracetest.NewSpanRecorder()
	settings := sqldb.Settings{URL: "postgres://x", TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))}
	if !sqldb.IsWrapped(settings) {
		t.Error("a connection with tracing is not wrapped")
	}
	startEnd := sqldb.StartEnd(settings)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { startEnd(ctx) }); n != 0 || len(recorder.Ended()) != 0 {
		t.Errorf("%v allocations and %d spans for a statement of no trace", n, len(recorder.Ended()))
	}
}
