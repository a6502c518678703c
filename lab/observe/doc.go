// Package observe tests what an operator sees of the services. It has no code
// but its tests.
//
// They start Debian's Prometheus, two replicas of every service and events'
// workers on a private PostgreSQL, and the load of their callers. Each series gets
// the labels that the chart's ServiceMonitors would give it, so what is tested is
// what an operator has. Then they ask, by Prometheus' own API:
//
//   - every panel of every dashboard, with its variables filled in as Grafana
//     does, for figures;
//   - every matcher of every expression, of dashboards and alerts, for a series that it finds;
//   - every alert, to be inactive while all is well, and to fire when what it is
//     about is really done to the system.
//
// What Kubernetes would report (autoscalers) comes from a few lines of the test
// that stand in for kube-state-metrics; nothing else is made up.
package observe
