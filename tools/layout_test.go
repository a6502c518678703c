package tools_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAdaptersDoNotImportEachOther holds the directions inside a service: httpapi does not know the store, the store
// does not know HTTP, and only internal/app knows both. Tests may import what they test against.
func TestAdaptersDoNotImportEachOther(t *testing.T) {
	t.Parallel()

	for _, found := range importsOfAdapters(t, "..") {
		t.Errorf("%s", found)
	}

	// The same look at a repository that breaks the rule.
	found := importsOfAdapters(t, filepath.Join("testdata", "rules"))
	if len(found) != 3 {
		t.Errorf("testdata/rules breaks the rule three times; found %q", found)
	}
}

// importsOfAdapters lists the imports of adapters by packages of the same service other than internal/app, and
// internal/metrics, which watches adapters.
func importsOfAdapters(t *testing.T, root string) []string {
	t.Helper()

	// The packages of a service that only internal/app may import.
	adapters := []string{"app", "httpapi", "mysql", "postgres", "processor", "spool", "worker"}

	files, err := filepath.Glob(filepath.Join(root, "services", "*", "internal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no services below %s: %v", root, err)
	}

	var found []string

	for _, internal := range files {
		prefix := "github.com/rowlock/rowlock/services/" + filepath.Base(filepath.Dir(internal)) + "/internal/"

		walk(t, internal, func(path string) {
			name, err := filepath.Rel(internal, path)
			if err != nil {
				t.Fatal(err)
			}

			from, _, _ := strings.Cut(filepath.ToSlash(name), "/")
			if from == "app" || from == "metrics" || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return
			}

			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}

			for _, spec := range file.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}

				to, _, _ := strings.Cut(strings.TrimPrefix(target, prefix), "/")
				if to != from && strings.HasPrefix(target, prefix) && slices.Contains(adapters, to) {
					found = append(found, path+" imports "+target)
				}
			}
		})
	}

	return found
}
