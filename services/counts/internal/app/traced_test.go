package app_test

import (
	"context"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/client"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// With tracing on every operation has a span of its own, in the trace of whoever calls
// the generated client. lab/traces looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), spans.Environ())
	open := func(url string) *client.ClientWithResponses {
		c, err := client.NewClientWithResponses(url, client.WithHTTPClient(spans.Client()))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	api, internal := open(r.api), open(r.internal)
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		{Name: "counts.initialize", Call: func(ctx context.Context) error {
			return apptest.OK(internal.InitializeCountWithResponse(ctx, client.NewCount{ItemId: "a"}))
		}},
		{Name: "counts.increase", Call: func(ctx context.Context) error {
			return apptest.OK(api.IncreaseCountWithResponse(ctx, "a", client.Change{}))
		}},
		{Name: "counts.decrease", Call: func(ctx context.Context) error {
			return apptest.OK(api.DecreaseCountWithResponse(ctx, "a", client.Change{}))
		}},
		{Name: "counts.reset", Call: func(ctx context.Context) error { return apptest.OK(api.ResetCountWithResponse(ctx, "a")) }},
		{Name: "counts.set", Call: func(ctx context.Context) error {
			return apptest.OK(internal.SetCountWithResponse(ctx, "a", client.CountUpdate{Value: 7}))
		}},
		{Name: "counts.get", Call: func(ctx context.Context) error { return apptest.OK(internal.GetCountWithResponse(ctx, "a")) }},
		{Name: "counts.get_many", Call: func(ctx context.Context) error {
			return apptest.OK(internal.ListCountsWithResponse(ctx, &client.ListCountsParams{ItemIds: []string{"a"}}))
		}},
		{Name: "counts.delete", Call: func(ctx context.Context) error { return apptest.OK(internal.DeleteCountWithResponse(ctx, "a")) }},
	})
}
