package sqldb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// TestTracing: statements inside a recorded span get spans of their own, others
// none, and none shows a value or the server's sentence about one.
func TestTracing(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(recorder)
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
		"once": incrementOnce(db)(ctx), "transaction": incrementTx(db)(ctx),
		"read": db.GetContext(ctx, &n, "SELECT n FROM counter"),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := execTx(ctx, db, `UPDATE counter SET n = $1::text::bigint`, "s3cret"); err == nil {
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
			all := attributesOf(span)
			failed = append(failed, span.Name()+fmt.Sprint(all["error.type"], all["db.response.status_code"]))
		}
		if span.Name() != "connect" && !strings.HasPrefix(span.Name(), "SET") { // a pool opens what it needs
			names = append(names, span.Name())
		}
	}
	slices.Sort(names)
	want := []string{
		"BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SELECT counter", "UPDATE counter", "UPDATE counter", "request",
		"UPDATE counter",
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "UPDATE counter") || strings.HasSuffix(failed[0], "<nil>") {
		t.Errorf("failed spans %q", failed)
	}
}

// On MySQL the driver puts values into a statement's text, which spans must not show. A
// lock that does not come free sets error.type on both engines, and no error status.
func TestTracingOfLockWaits(t *testing.T) {
	t.Parallel()
	for engine, c := range map[string]struct {
		prepare func(testing.TB) string
		update  string
		change  change
	}{
		"postgresql": {
			counterDatabase,
			`UPDATE counter SET n = n + 1 WHERE id = $1 AND $2 <> ''`,
			func(s *sqldb.Settings) { s.LockTimeout = 50 * time.Millisecond },
		},
		"mysql": {mariaCounters, `UPDATE counter SET n = n + 1 WHERE id = ? AND ? <> ''`, quickMaria},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			recorder := tracetest.NewSpanRecorder()
			provider := telemetry.NewProvider(recorder)
			url := c.prepare(t)
			db := open(t, url, c.change, func(s *sqldb.Settings) { s.TracerProvider = provider })
			ctx, request := provider.Tracer("test").Start(t.Context(), "request")
			update := func() error { return execTx(ctx, db, c.update, "a", "s3cret") }
			if err := update(); err != nil {
				t.Fatal(err)
			}
			release := hold(t, open(t, url), "a")
			err := update()
			release()
			wantError(t, err, sqldb.NotApplied, sqldb.LockTimeout)
			request.End()
			var kinds []string
			for _, span := range recorder.Ended() {
				all := attributesOf(span)
				text := fmt.Sprint(span.Name(), span.Status(), span.Events(), all)
				if strings.Contains(text, "s3cret") || span.Status().Code != codes.Unset {
					t.Errorf("%s fails or shows a value: %s", span.Name(), text)
				}
				if span.Name() == "UPDATE counter" {
					kinds = append(kinds, fmt.Sprint(all["error.type"]))
					if all["db.query.text"] != c.update || all["db.system.name"] != engine {
						t.Errorf("attributes %v", all)
					}
				}
			}
			want := []string{"<nil>", sqldb.LockTimeout.String()}
			if len(kinds) < len(want) || !slices.Equal(kinds[:len(want)], want) {
				t.Errorf("the updates ended as %q, want %q", kinds, want)
			}
		})
	}
}

// The span of a cancelled read has an error.type and no error status.
func TestTracingOfCancelledReads(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(recorder)
	url := counterDatabase(t)
	db := open(t, url, func(s *sqldb.Settings) { s.TracerProvider = provider })
	release := hold(t, open(t, url), "a")
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	ctx, request := provider.Tracer("test").Start(ctx, "request")
	time.AfterFunc(50*time.Millisecond, cancel)
	var n int
	if err := db.GetContext(ctx, &n, "SELECT n FROM counter WHERE id = 'a' FOR UPDATE"); err == nil {
		t.Fatal("it did not wait")
	}
	request.End()
	for _, span := range recorder.Ended() {
		if span.Status().Code != codes.Unset {
			t.Errorf("%s fails: %v", span.Name(), attributesOf(span))
		}
		if span.Name() == "SELECT counter" && attributesOf(span)["error.type"] == nil {
			t.Errorf("no error.type: %v", attributesOf(span))
		}
	}
}

func attributesOf(span sdktrace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}
