// Package e2e holds the tests of the chart and the images in a real cluster:
// whatever cluster KUBECONFIG names (a test cluster, kind, yours), with images
// that are there already. `make e2e` runs them; without the build tag e2e there
// are none.
//
// It is one story, told in order: install, look, break, scale, upgrade,
// uninstall. The services are the rows of one table (services_test.go).
package e2e
