package app_test

import (
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// With tracing on every operation has a span of its own, in the caller's trace. lab/observe looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), spans.Environ())
	a, internal := r.API+counts+"a", r.API+internalCounts
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		spans.Sending("counts.initialize", http.MethodPost, internal, `{"itemId":"a"}`),
		spans.Sending("counts.increase", http.MethodPost, a+"/increase", ""),
		spans.Sending("counts.decrease", http.MethodPost, a+"/decrease", ""),
		spans.Sending("counts.reset", http.MethodPost, a+"/reset", ""),
		spans.Sending("counts.set", http.MethodPut, internal+"/a", `{"value":7}`),
		spans.Sending("counts.get", http.MethodGet, internal+"/a", ""),
		spans.Sending("counts.get_many", http.MethodGet, internal+"?itemIds=a", ""),
		spans.Sending("counts.delete", http.MethodDelete, internal+"/a", ""),
	})
}
