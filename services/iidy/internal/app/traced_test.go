package app_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
)

// With tracing on every operation has a span of its own, in the caller's trace.
// lab/observe looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r := start(t, spans.Environ())
	list, batch, two := r.API+"/iidy/v1/lists/l", r.API+"/iidy/v1/batch/lists/l", `{"items":["a","b"]}`
	held := ""
	ofClaim := func(action string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := spans.Send(ctx, http.MethodPost, batch+"?action="+action+"&claim="+held, "")
			return err
		}
	}
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		spans.Sending("iidy.add", http.MethodPost, list+"/a", ""),
		spans.Sending("iidy.add_batch", http.MethodPost, batch, two),
		spans.Sending("iidy.get", http.MethodGet, list+"/a", ""),
		spans.Sending("iidy.exists", http.MethodHead, list, ""),
		spans.Sending("iidy.page", http.MethodGet, batch+"?count=1", ""),
		spans.Sending("iidy.count", http.MethodGet, list, ""),
		spans.Sending("iidy.increment", http.MethodPost, list+"/a?action=increment", ""),
		spans.Sending("iidy.increment_batch", http.MethodPost, batch+"?action=increment", two),
		{Name: "iidy.claim", Call: func(ctx context.Context) error {
			header, _, err := spans.Send(ctx, http.MethodPost, batch+"?action=claim&count=2&lease=60s", "")
			held = header.Get("X-Iidy-Claim")
			return err
		}},
		{Name: "iidy.extend", Call: ofClaim("extend&lease=60s")},
		{Name: "iidy.release", Call: ofClaim("release")},
		spans.Sending("iidy.delete", http.MethodDelete, list+"/a", ""),
		spans.Sending("iidy.delete_batch", http.MethodDelete, batch, two),
		spans.Sending("iidy.abandon", http.MethodDelete, batch+"?min_attempts=1", ""),
	})
}
