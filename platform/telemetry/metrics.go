package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry returns a registry with the metrics that all processes report.
func newRegistry(cfg Config, spans prometheus.Collector) *prometheus.Registry {
	// There is no commit label: the go command records no commit in a workspace. The version (git describe) names it.
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "rowlock_build_info",
		Help:        "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{"service": cfg.Service, "version": cfg.Version, "goversion": runtime.Version()},
	})
	build.Set(1)

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, spans)
	return registry
}
