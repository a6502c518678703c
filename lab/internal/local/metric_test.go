package local_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
)

func TestMetric(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE a counter\na{b=\"1\"} 2\na{b=\"2\"} 3.5\nab 7\n"))
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	for name, want := range map[string]float64{"a": 5.5, `a{b="1"}`: 2, "ab": 7} {
		if got, err := local.Metric(t.Context(), addr, name); got != want || err != nil {
			t.Errorf("%s is %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := local.Metric(t.Context(), addr, "c"); err == nil {
		t.Error("a metric that is not there is read")
	}
}
