package tools_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAddingAService compares docs/adding-a-service.md with the repository. The table has at most twelve files. Every
// service has each of them, but for those that say "where it has" what they are about. Every file outside services/
// that names all services or that each of them has, tests and pages included, stands on the page, and everything on the
// page exists.
func TestAddingAService(t *testing.T) {
	t.Parallel()

	const page, most = "docs/adding-a-service.md", 12

	mains, err := filepath.Glob(filepath.Join("..", "services", "*", "go.mod"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("no services: %v", err)
	}

	var names []string
	for _, file := range mains {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}

	text := readFile(t, filepath.Join("..", page))
	table := regexp.MustCompile("(?m)^\\| `([^` ]+)` \\|(.*)$").FindAllStringSubmatch(text, -1)

	if len(table) == 0 || len(table) > most {
		t.Errorf("%s lists %d files, want 1 to %d", page, len(table), most)
	}

	for _, row := range table {
		missing := 0

		for _, name := range names {
			if _, err := os.Stat(filepath.Join("..", strings.ReplaceAll(row[1], "X", name))); err != nil {
				missing++
			}
		}

		if missing == len(names) || missing > 0 && !strings.Contains(row[2], "where it has") {
			t.Errorf("%s lists %s, which %d services lack", page, row[1], missing)
		}
	}

	for _, path := range regexp.MustCompile("`([a-z]+[/.][^`X ]*)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", path[1])); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}

	for _, file := range tracked(t, ":!services", ":!docs/decisions", ":!lab/chart/testdata") {
		if strings.Contains(text, "`"+file+"`") {
			continue
		}

		content := readFile(t, filepath.Join("..", file))
		if !slices.ContainsFunc(names, func(name string) bool {
			return !regexp.MustCompile(`(?i)\b` + name + `\b`).MatchString(content)
		}) {
			t.Errorf("%s names all services and is not in %s", file, page)
		}

		each := strings.ReplaceAll(file, names[0], "X")
		if each != file && !strings.Contains(text, "`"+each+"`") && !slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Stat(filepath.Join("..", strings.ReplaceAll(each, "X", name)))
			return err != nil
		}) {
			t.Errorf("every service has %s, which is not in %s", each, page)
		}
	}
}
