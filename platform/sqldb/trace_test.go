package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// tracing is a pool whose statements are recorded below a span named request.
type tracing struct {
	*sqldb.DB

	ctx      context.Context
	recorder *tracetest.SpanRecorder
	request  trace.Span
}

func openTraced(t *testing.T, url string, changes ...change) tracing {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(recorder)
	db := open(t, url, append(changes, func(s *sqldb.Settings) { s.TracerProvider = provider })...)
	ctx, request := provider.Tracer("test").Start(t.Context(), "request") //nolint:spancheck // spans ends it
	return tracing{db, ctx, recorder, request}                            //nolint:spancheck // as above
}

// spans ends the request and returns the spans of the calls, as "name error.type", without
// what the pool opens as it needs. A span with an error status is marked "!". A span in
// another trace or one with a value fails the test.
func (c tracing) spans(t *testing.T) (found []string) {
	t.Helper()
	c.request.End()
	for _, span := range c.recorder.Ended() {
		all := map[string]any{}
		for _, a := range span.Attributes() {
			all[string(a.Key)] = a.Value.AsInterface()
		}
		if text := fmt.Sprint(span.Name(), span.Status(), span.Events(), all); strings.Contains(text, "s3cret") ||
			span.SpanContext().TraceID() != c.request.SpanContext().TraceID() {
			t.Errorf("a span shows a value, or is in another trace: %s", text)
		}
		line := span.Name()
		if kind, ok := all["error.type"]; ok {
			line += fmt.Sprint(" ", kind)
		}
		if span.Status().Code == codes.Error {
			line += "!"
		}
		if span.Name() != "connect" && span.Name() != "request" {
			found = append(found, line)
		}
	}
	return found
}

// TestTracing: statements inside a recorded span get spans of their own, others
// none, and none shows a value or the server's sentence about one.
func TestTracing(t *testing.T) {
	t.Parallel()
	db := openTraced(t, counterDatabase(t))
	if err := incrementOnce(db.DB)(t.Context()); err != nil { // in no recorded span
		t.Fatal(err)
	}
	if err := errors.Join(incrementOnce(db.DB)(db.ctx), incrementTx(db.DB)(db.ctx),
		db.GetContext(db.ctx, new(int), "SELECT n FROM counter")); err != nil {
		t.Fatal(err)
	}
	if err := execTx(db.ctx, db.DB, `UPDATE counter SET n = $1::text::bigint`, "s3cret"); err == nil {
		t.Fatal("the bad statement passed")
	}
	want := []string{
		"UPDATE counter", "BEGIN", "UPDATE counter", "COMMIT", "SELECT counter",
		"BEGIN", "UPDATE counter data!", "ROLLBACK",
	}
	if got := db.spans(t); !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

// On MySQL the driver puts values into a statement's text, which spans must not show. A
// lock that does not come free sets error.type on both engines, and no error status.
func TestTracingOfLockWaits(t *testing.T) {
	t.Parallel()
	for engine, database := range counters() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			db := openTraced(t, url, briefly)
			query := map[string]string{
				"postgresql": `UPDATE counter SET n = n + 1 WHERE id = $1 AND $2 <> ''`,
				"mysql":      `UPDATE counter SET n = n + 1 WHERE id = ? AND ? <> ''`,
			}[engine]
			update := func() error { return execTx(db.ctx, db.DB, query, "a", "s3cret") }
			if err := update(); err != nil {
				t.Fatal(err)
			}
			hold(t, open(t, url), "a")
			wantError(t, update(), sqldb.NotApplied, sqldb.LockTimeout)
			want := []string{"BEGIN", "UPDATE counter", "COMMIT", "BEGIN", "UPDATE counter lock_timeout", "ROLLBACK"}
			if got := db.spans(t); !slices.Equal(got, want) {
				t.Errorf("spans %q, want %q", got, want)
			}
			for _, span := range db.recorder.Ended() {
				if span.Name() == "UPDATE counter" && (!slices.Contains(span.Attributes(), semconv.DBQueryText(query)) ||
					!slices.Contains(span.Attributes(), semconv.DBSystemNameKey.String(engine))) {
					t.Errorf("attributes %v", span.Attributes())
				}
			}
		})
	}
}

// The span of a cancelled read has an error.type and no error status.
func TestTracingOfCancelledReads(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	db := openTraced(t, url)
	direct := open(t, url)
	hold(t, direct, "a")
	ctx, cancel := context.WithCancel(db.ctx)
	go func() {
		waitBlocked(t, direct, 1)
		cancel()
	}()
	if err := db.GetContext(ctx, new(int), "SELECT n FROM counter WHERE id = 'a' FOR UPDATE"); err == nil {
		t.Fatal("it did not wait")
	}
	got := strings.Join(db.spans(t), ", ")
	if !strings.HasPrefix(got, "SELECT counter ") || strings.Contains(got, "!") {
		t.Errorf("spans %q", got)
	}
}
