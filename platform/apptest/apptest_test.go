package apptest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/problem"
)

// fake is an app whose admin listener is a plain HTTP server.
type fake struct {
	server *httptest.Server
	ended  atomic.Bool
}

func (f *fake) Run(ctx context.Context) error {
	<-ctx.Done()
	f.ended.Store(true)
	return nil
}

func (f *fake) AdminAddr() net.Addr { return f.server.Listener.Addr() }

func TestReplica(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# TYPE a_total counter\na_total{b=\"c\"} 1\na_total{b=\"cd\"} 2.5\n")
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		_ = problem.Write(w, problem.InvalidField.New("No.", problem.Field("f")), "")
	})
	f := &fake{server: httptest.NewServer(mux)}
	t.Cleanup(f.server.Close)
	r := start(t, f, new(Log))
	if asked.Load() != 3 {
		t.Errorf("it was asked %d times whether it is ready, want 3", asked.Load())
	}
	if v := r.Metric(t, `a_total{b="cd"}`); v != 2.5 {
		t.Errorf("the metric is %g", v)
	}
	if _, err := metric(r.Metrics(t), "a_total"); err == nil {
		t.Error("a series without its labels was found")
	}
	a := Get(t, r.Admin+"/bad")
	if a.Status != 400 || a.Code != "INVALID_FIELD" || a.Field != "f" ||
		a.Header.Get("Content-Type") != problem.ContentType {
		t.Errorf("%s %q %q", a, a.Code, a.Field)
	}
	for range 2 {
		if err := r.Stop(); err != nil || !f.ended.Load() {
			t.Errorf("%v, ended %v", err, f.ended.Load())
		}
	}
	f.server.Close()
	if a := Get(t, r.Admin+"/readyz"); a.Status != 0 || a.Body == "" {
		t.Errorf("without a server the answer is %s", a)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	type service struct{ config.Common }
	c := Config[service](t, "postgres://u@h/d",
		map[string]string{"LOG_LEVEL": "warn"}, map[string]string{"LOG_LEVEL": "error"})
	if c.DatabaseURL != "postgres://u@h/d" || c.LogLevel != "error" || c.HTTPAddr != "127.0.0.1:0" {
		t.Errorf("%+v", c)
	}
}

// The names must be held against each other in both directions, with types and labels.
func TestReadmeMetrics(t *testing.T) {
	t.Parallel()
	const metrics = `# HELP rowlock_a x
# TYPE rowlock_a gauge
rowlock_a 1
# TYPE rowlock_wait_seconds histogram
rowlock_wait_seconds_bucket{where="a \"le\" {b=\"c\"}",lock="k",le="0.1"} 1
rowlock_wait_seconds_sum{where="a",lock="k"} 1
# TYPE own_b_total counter
own_b_total{reason="x"} 1
# TYPE go_c gauge
`
	want := []string{"own_b_total counter reason", "rowlock_a gauge", "rowlock_wait_seconds histogram lock, where"}
	if got := exposedMetrics(metrics, []string{"own_"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const readme = "| `early` | gauge | | before the section |\n## Metrics\n\n" +
		"| `rowlock_a` | gauge | | x |\n| `rowlock_wait_seconds` | histogram | lock, where | z |\n" +
		"| `own_b_total` | counter | reason | y |\n| `z` | other | | |\n"
	if got := readmeMetrics(readme); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
