package chassis_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// proxyChild makes the test binary the process that sends.
const proxyChild = "ROWLOCK_PROXY_CHILD"

// The issuer and the collector are reached by the proxy of the environment. net/http reads that once in a process, so
// another one sends.
func TestProxyOfTheEnvironment(t *testing.T) {
	if config.Environ()[proxyChild] != "" {
		callOut(t)
		return
	}
	t.Parallel()

	var asked sync.Map
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.Host, true)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(child.Environ(),
		proxyChild+"=1", "HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL, "NO_PROXY=")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	for _, want := range []string{
		"CONNECT issuer.example:443", "CONNECT collector.example:4317", "POST collector.example:4318",
	} {
		if _, ok := asked.Load(want); !ok {
			t.Errorf("the proxy did not get %s", want)
		}
	}
}

// callOut asks an issuer for its keys, and sends spans to a collector by both protocols.
func callOut(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics := auth.NewMetrics(prometheus.NewRegistry())
	guard, err := auth.New("probe", config.Auth{Issuer: "https://issuer.example", Policy: policy}, metrics,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(t.Context()); err != nil {
		t.Error(err)
	}

	for protocol, endpoint := range map[string]string{
		"grpc": "http://collector.example:4317", "http/protobuf": "http://collector.example:4318",
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "probe", Environ: config.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "x")
		span.End()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_ = tel.Shutdown(ctx) // the proxy refuses
		cancel()
	}
}
