// Package e2e holds the tests of the chart and the images in the cluster that
// KUBECONFIG names (a test cluster, kind, yours), which must have the images.
// `make e2e` runs them; without the build tag e2e there are none.
//
// It is one test that tells two stories at once, in two namespaces, by chapters that
// build on one another: a release by the README's commands, its upgrades, rollback,
// faults and end; and other ways to install. The loads and checks are those of
// package targets.
package e2e
