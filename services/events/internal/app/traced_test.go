package app_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/client"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// With tracing on every operation has a span of its own, in the trace of whoever calls
// the generated client, and so has a worker's batch, in a trace of its own. lab/traces
// looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := serve(t, dsn, spans.Environ())
	c, err := client.NewClientWithResponses(r.api, client.WithHTTPClient(spans.Client()))
	if err != nil {
		t.Fatal(err)
	}
	w := work(t, dsn, spans.Environ())
	stop := func() error {
		waittest.Eventually(t, "the pending event is worked", func() bool { return w.Metric(t, "events_worked_total") == 1 })
		return errors.Join(r.Stop(), w.Stop())
	}
	spans.AreTraced(t, stop, []apptest.Operation{
		{Name: "events.create", Call: func(ctx context.Context) error { return apptest.OK(c.CreateEventWithResponse(ctx)) }},
		{Name: "events.enqueue", Call: func(ctx context.Context) error { return apptest.OK(c.EnqueueEventWithResponse(ctx)) }},
		{Name: "events.get", Call: func(ctx context.Context) error { return apptest.OK(c.GetEventWithResponse(ctx, 1)) }},
		{Name: "events.count", Call: func(ctx context.Context) error { return apptest.OK(c.CountEventsWithResponse(ctx)) }},
	})
	if !spans.Has("events.work") {
		t.Error("the worker's batch has no span")
	}
}
