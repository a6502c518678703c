// Package observe tests what an operator sees of the services, from outside: metrics, dashboards, alerts, traces and
// logs. It has no code but its tests, which run real processes on a private PostgreSQL.
//
// TestObserved adds a private Prometheus and the load of callers. Each series gets the labels that the chart's
// ServiceMonitors give it. The test then asks Prometheus:
//
//   - every panel of every dashboard, with its variables filled in as Grafana does, for figures;
//   - every selector of every expression, of dashboards and alerts, for a series that it finds.
//
// That each alert fires where its cause is, and none while all is well, promtool tests.
//
// What Kubernetes reports (autoscalers) comes from a stand-in for kube-state-metrics.
//
// TestTraces sends marked requests to replicas that export spans over OTLP. It compares the span trees with the
// expected ones, and fails when a mark comes back in a span or in a log line.
package observe
