// Package dashboard makes the Grafana dashboards that the chart ships: one
// overview, and one for each service.
//
// They are written in Go so that six of them stay alike: what all services have
// (requests, locks, connections, processes) is said once, in shared.go, and a file
// of each service adds what only that one has. What is made is plain JSON, and
// committed: whoever imports it needs nothing of this package.
//
// In an expression $sel stands for the label matchers of the dashboard, so that
// none can be forgotten; everything else that begins with a dollar is Grafana's.
package dashboard

//go:generate go run ./write ../../../charts/rowlock/dashboards
