package app_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/iidy/client"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// With tracing on every operation has a span of its own, in the trace of whoever calls
// the generated client. lab/traces looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), spans.Environ())
	c, err := client.NewClientWithResponses(r.api, client.WithHTTPClient(spans.Client()))
	if err != nil {
		t.Fatal(err)
	}
	const list = "l"
	two := client.Items{Items: []string{"a", "b"}}
	lease, count, tried := "60s", 2, int64(1)
	claim, extend, release := client.PostBatchParamsActionClaim, client.PostBatchParamsActionExtend, client.PostBatchParamsActionRelease
	var held client.Claim
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		{Name: "iidy.add", Call: func(ctx context.Context) error {
			return apptest.OK(c.AddItemWithResponse(ctx, list, "a", &client.AddItemParams{}))
		}},
		{Name: "iidy.add_batch", Call: func(ctx context.Context) error {
			return apptest.OK(c.PostBatchWithResponse(ctx, list, &client.PostBatchParams{}, two))
		}},
		{Name: "iidy.get", Call: func(ctx context.Context) error { return apptest.OK(c.GetItemWithResponse(ctx, list, "a")) }},
		{Name: "iidy.exists", Call: func(ctx context.Context) error { return apptest.OK(c.HeadListWithResponse(ctx, list)) }},
		{Name: "iidy.page", Call: func(ctx context.Context) error {
			return apptest.OK(c.GetPageWithResponse(ctx, list, &client.GetPageParams{Count: 1}))
		}},
		{Name: "iidy.progress", Call: func(ctx context.Context) error { return apptest.OK(c.CountItemsWithResponse(ctx, list)) }},
		{Name: "iidy.increment", Call: func(ctx context.Context) error {
			return apptest.OK(c.IncrementItemWithResponse(ctx, list, "a", &client.IncrementItemParams{}))
		}},
		{Name: "iidy.increment_batch", Call: func(ctx context.Context) error {
			return apptest.OK(c.IncrementBatchWithResponse(ctx, list, &client.IncrementBatchParams{}, two))
		}},
		{Name: "iidy.claim", Call: func(ctx context.Context) error {
			params := client.PostBatchParams{Action: &claim, Count: &count, Lease: &lease}
			a, err := c.PostBatchWithTextBodyWithResponse(ctx, list, &params, "")
			if err != nil || a.StatusCode() != 200 {
				return fmt.Errorf("%+v, %w", a, err)
			}
			return held.UnmarshalText([]byte(a.HTTPResponse.Header.Get("X-Iidy-Claim")))
		}},
		{Name: "iidy.extend", Call: func(ctx context.Context) error {
			params := client.PostBatchParams{Action: &extend, Claim: &held, Lease: &lease}
			return apptest.OK(c.PostBatchWithTextBodyWithResponse(ctx, list, &params, ""))
		}},
		{Name: "iidy.release", Call: func(ctx context.Context) error {
			params := client.PostBatchParams{Action: &release, Claim: &held}
			return apptest.OK(c.PostBatchWithTextBodyWithResponse(ctx, list, &params, ""))
		}},
		{Name: "iidy.delete", Call: func(ctx context.Context) error {
			return apptest.OK(c.DeleteItemWithResponse(ctx, list, "a", &client.DeleteItemParams{}))
		}},
		{Name: "iidy.delete_batch", Call: func(ctx context.Context) error {
			return apptest.OK(c.DeleteBatchWithResponse(ctx, list, &client.DeleteBatchParams{}, two))
		}},
		{Name: "iidy.abandon", Call: func(ctx context.Context) error {
			return apptest.OK(c.DeleteBatchWithTextBodyWithResponse(ctx, list, &client.DeleteBatchParams{MinAttempts: &tried}, ""))
		}},
	})
}
