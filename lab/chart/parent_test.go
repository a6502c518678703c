package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// Another chart may depend on this one, and have globals for others of its dependencies, which change nothing here.
func TestAParentChart(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts", "rowlock"), os.DirFS(umbrella)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(parent, "Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: "+
		"[{name: rowlock, version: "+metadataOf(t, umbrella).Version+"}]}")

	const globals = "global: {imageRegistry: registry.example, storageClass: fast, security: {allowInsecureImages: true}}"
	if got := renderAlike(t, parent, globals); !reflect.DeepEqual(got, render(t, umbrella, "")) {
		t.Errorf("as a dependency it renders\n%s", raw(t, got))
	}
}
