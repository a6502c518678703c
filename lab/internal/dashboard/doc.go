// Package dashboard writes the Grafana dashboards that the chart ships: an overview, and one for each service.
//
// They are written in Go so that they stay alike: shared.go has what all services have (requests, locks, connections,
// processes), and a file of each service adds its own. The output is plain JSON, which is committed and needs nothing
// of this package.
//
// In an expression $sel stands for the label matchers of the dashboard, so that none is forgotten. Everything else that
// begins with a dollar is Grafana's.
package dashboard
