// Package cluster pins what the chart is tested and installed with: Helm 3, Helm 4 and kind. It is a module of its own,
// because these bring Kubernetes along, which the linter and the generators beside it do not need.
package cluster
