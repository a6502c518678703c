package app_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// With tracing on every operation has a span of its own, and answers what it
// answers without. lab/traces looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	var mu sync.Mutex
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&sent, r.Body)
	}))
	defer collector.Close()
	environ := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
	for name, value := range environ {
		t.Setenv(name, value)
	}
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), environ)

	operations := []struct {
		name, method, url, body string
		status                  int
	}{
		{"counts.initialize", "POST", r.internal + internalCounts, `{"itemId":"a"}`, 201},
		{"counts.increase", "POST", r.api + counts + "a/increase", "", 200},
		{"counts.decrease", "POST", r.api + counts + "a/decrease", "", 200},
		{"counts.reset", "POST", r.api + counts + "a/reset", "", 200},
		{"counts.set", "PUT", r.internal + internalCounts + "/a", `{"value":7}`, 200},
		{"counts.get", "GET", r.internal + internalCounts + "/a", "", 200},
		{"counts.get_many", "GET", r.internal + internalCounts + "?itemIds=a", "", 200},
		{"counts.delete", "DELETE", r.internal + internalCounts + "/a", "", 204},
	}
	for _, o := range operations {
		if status, body := call(t, o.method, o.url, o.body); status != o.status {
			t.Errorf("%s: %d %s, want %d", o.name, status, body, o.status)
		}
	}
	if err := r.Stop(); err != nil { // what is left of the spans is sent then
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, o := range operations {
		if !bytes.Contains(sent.Bytes(), []byte(o.name)) {
			t.Errorf("no span %s in %d bytes", o.name, sent.Len())
		}
	}
}
