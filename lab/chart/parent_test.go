package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// Another chart may depend on this one by a condition, and have globals for others of its dependencies. Only its pull
// secrets, names as Bitnami's charts have them, are for these pods too.
func TestAParentChart(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts", "rowlock"), os.DirFS(umbrella)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(parent, "Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: "+
		"[{name: rowlock, condition: rowlock.enabled, version: "+metadataOf(t, umbrella).Version+"}]}")

	const globals = `
rowlock: {enabled: true}
global:
  # Bitnami's charts
  imageRegistry: registry.example
  imagePullSecrets: [regcred]
  defaultStorageClass: fast
  security: {allowInsecureImages: true}
  compatibility: {openshift: {adaptSecurityContext: auto}}
  postgresql: {auth: {existingSecret: pg}, service: {ports: {postgresql: "5432"}}}
  # kube-prometheus-stack
  rbac: {create: true, pspAnnotations: {}}
  # Charts with the names of ours
  image: {pullPolicy: Always}
  database: {host: db}
`
	want := render(t, umbrella, "global: {imagePullSecrets: [{name: regcred}]}")
	if got := renderAlike(t, parent, globals); !reflect.DeepEqual(got, want) {
		t.Errorf("as a dependency it renders\n%s", raw(t, got))
	}
}
