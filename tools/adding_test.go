package tools_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAddingAService compares docs/adding-a-service.md with the repository: every file outside services/ that names all
// services must stand there, and every file there must exist, with the name of a service for X.
func TestAddingAService(t *testing.T) {
	t.Parallel()

	const page = "docs/adding-a-service.md"

	mains, err := filepath.Glob(filepath.Join("..", "services", "*", "go.mod"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("no services: %v", err)
	}

	var (
		names  []string
		words  []*regexp.Regexp
		listed = map[string]bool{}
	)

	for _, file := range mains {
		name := filepath.Base(filepath.Dir(file))
		names, words = append(names, name), append(words, regexp.MustCompile(`(?i)\b`+name+`\b`))
	}

	file := regexp.MustCompile("`([a-zA-Z0-9]+[./][^` ]*)`")
	for _, m := range file.FindAllStringSubmatch(readFile(t, filepath.Join("..", page)), -1) {
		found := strings.HasPrefix(m[1], "internal/") || strings.HasPrefix(m[1], "cmd/") // of the service's own folder

		for _, name := range names {
			file := strings.ReplaceAll(m[1], "X", name)
			listed[file] = true

			_, err := os.Stat(filepath.Join("..", file))
			_, own := os.Stat(filepath.Join("..", "services", name, file))
			found = found || err == nil || own == nil
		}

		if !found {
			t.Errorf("%s names %s, which no service has", page, m[1])
		}
	}

	for _, file := range tracked(t, ":!services", ":!docs", ":!CHANGELOG.md", ":!*.json") {
		text, all := readFile(t, filepath.Join("..", file)), true
		for _, word := range words {
			all = all && word.MatchString(text)
		}

		if all && !listed[file] && !strings.Contains(text, "Code generated") {
			t.Errorf("%s names all services and is not in %s", file, page)
		}
	}
}
