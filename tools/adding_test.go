package tools_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAddingAService compares docs/adding-a-service.md with the repository. The table has at most twelve files, each of
// which every service has. Every file outside services/ that names all services, tests and pages included, stands on the
// page, and everything on the page exists.
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
	table := regexp.MustCompile("(?m)^\\| `([^` ]+)` \\|").FindAllStringSubmatch(text, -1)

	if len(table) == 0 || len(table) > most {
		t.Errorf("%s lists %d files, want 1 to %d", page, len(table), most)
	}

	for _, row := range table {
		for _, name := range names {
			file := strings.ReplaceAll(row[1], "X", name)
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s lists %s: %v", page, row[1], err)
			}
		}
	}

	for _, path := range regexp.MustCompile("`([a-z]+[/.][^`X ]*)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", path[1])); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}

	for _, file := range tracked(t, ":!services", ":!docs/decisions") {
		if strings.Contains(text, "`"+file+"`") {
			continue
		}

		content, unnamed := readFile(t, filepath.Join("..", file)), false
		for _, name := range names {
			unnamed = unnamed || !regexp.MustCompile(`(?i)\b`+name+`\b`).MatchString(content)
		}

		if !unnamed {
			t.Errorf("%s names all services and is not in %s", file, page)
		}
	}
}
