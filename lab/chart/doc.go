// Package chart holds the tests of charts/rowlock that need no cluster. Helm 3
// and Helm 4, pinned in tools/cluster, render the chart; what comes out is
// decoded strictly into Kubernetes' own types, so that a misspelt field fails
// here and not in a cluster.
//
// A key of values.yaml that no test turns fails the package too (knobs_test.go).
// The tests in a cluster are in lab/e2e.
package chart

//go:generate go run ../internal/chartfiles ../../charts/rowlock
