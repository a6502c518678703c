package app_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// TestOperationsAreTraced: with tracing every operation has a span in the caller's trace, and a worker's batch has one
// in a trace of its own. lab/observe tests the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := serve(t, dsn, spans.Environ())
	w := work(t, dsn, spans.Environ())
	stop := func() error {
		waittest.Eventually(t, "the pending event is worked", func() bool { return w.Metric(t, "events_worked_total") == 1 })
		return errors.Join(r.Stop(), w.Stop())
	}
	spans.AreTraced(t, stop, []apptest.Operation{
		spans.Sending("events.create", http.MethodPost, r.api+"/events", ""),
		spans.Sending("events.enqueue", http.MethodPost, r.api+"/events/async", ""),
		spans.Sending("events.get", http.MethodGet, r.api+"/events/1", ""),
		spans.Sending("events.count", http.MethodGet, r.api+"/events", ""),
	})
	if !spans.Has("events.work") {
		t.Error("the worker's batch has no span")
	}
}
