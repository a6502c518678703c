package telemetry

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry makes the registry with what every process reports.
func newRegistry(cfg Config) (*prometheus.Registry, error) {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rowlock_build_info",
		Help: "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{
			"service":   cfg.Service,
			"version":   cfg.Version,
			"revision":  revision(),
			"goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })

	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: register metrics: %w", err)
		}
	}
	return registry, nil
}

// revision is the commit that the binary was built from, empty when it was not
// built inside a repository.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
