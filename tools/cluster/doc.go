// Package cluster pins the tools that install and test the chart: Helm 3, Helm 4 and kind. It is a separate module,
// because these depend on Kubernetes, which the linter and the generators do not need.
package cluster
