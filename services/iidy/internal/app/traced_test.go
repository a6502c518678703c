package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
)

// With tracing on every operation has a span in the caller's trace. lab/observe tests the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r := start(t, spans.Environ())
	list, batch, two := r.API+"/iidy/v1/lists/l", r.API+"/iidy/v1/batch/lists/l", `{"items":["a","b"]}`
	const claim = "&claim=3f2504e0-4f89-41d3-9a0c-0305e82c3301"
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		spans.Sending("iidy.add", "POST", list+"/a", ""),
		spans.Sending("iidy.add_batch", "POST", batch, two),
		spans.Sending("iidy.get", "GET", list+"/a", ""),
		spans.Sending("iidy.exists", "HEAD", list, ""),
		spans.Sending("iidy.page", "GET", batch+"?count=1", ""),
		spans.Sending("iidy.progress", "GET", list, ""),
		spans.Sending("iidy.increment", "POST", list+"/a?action=increment", ""),
		spans.Sending("iidy.increment_batch", "POST", batch+"?action=increment", two),
		spans.Sending("iidy.claim", "POST", batch+"?action=claim&count=2&lease=60s", ""),
		spans.Sending("iidy.extend", "POST", batch+"?action=extend&lease=60s"+claim, ""),
		spans.Sending("iidy.release", "POST", batch+"?action=release"+claim, ""),
		spans.Sending("iidy.delete", "DELETE", list+"/a", ""),
		spans.Sending("iidy.delete_batch", "DELETE", batch, two),
		spans.Sending("iidy.abandon", "DELETE", batch+"?min_attempts=1", ""),
	})
}
