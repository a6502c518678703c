package app_test

import (
	"context"
	"encoding/json"
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
	dsn, _ := open(t)
	r := start(t, dsn, spans.Environ())
	var made struct {
		ID string `json:"id"`
	}
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		{Name: "payments.pay", Call: func(ctx context.Context) error {
			a, err := spans.Send(ctx, http.MethodPost, r.api, body(1250, goodCard), "Idempotency-Key", "k")
			if err != nil {
				return err
			}
			return json.Unmarshal([]byte(a.Body), &made)
		}},
		{Name: "payments.get", Call: func(ctx context.Context) error {
			_, err := spans.Send(ctx, http.MethodGet, r.api+"/"+made.ID, "")
			return err
		}},
		spans.Sending("payments.list", http.MethodGet, r.api+"?ride_id=ride-1", ""),
	})
	if !spans.Has("processor.charge") {
		t.Error("the charge has no span")
	}
}
