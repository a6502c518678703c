package telemetry

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry makes the registry with what every process reports.
func newRegistry(cfg Config, spans prometheus.Collector) (*prometheus.Registry, error) {
	// No label for the commit: the go command records none in a workspace. The
	// version that the linker is given (git describe) names it.
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rowlock_build_info",
		Help: "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{
			"service":   cfg.Service,
			"version":   cfg.Version,
			"goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })

	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
		spans,
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: register metrics: %w", err)
		}
	}
	return registry, nil
}
