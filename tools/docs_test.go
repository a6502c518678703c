package tools_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// tracked lists the repository's files that match a pathspec, with slashes.
func tracked(t *testing.T, pathspec ...string) []string {
	t.Helper()

	args := append([]string{"ls-files", "-co", "--exclude-standard", "--"}, pathspec...)
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = ".."

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}

	var names []string

	for name := range strings.FieldsSeq(string(out)) {
		if _, err := os.Stat(filepath.Join("..", name)); err == nil { // not deleted since
			names = append(names, name)
		}
	}

	return names
}

// prose calls visit for each line of a Markdown page outside of fenced code.
func prose(page string, visit func(number int, line string)) {
	fenced := false

	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			visit(i+1, line)
		}
	}
}

// TestMarkdownWraps holds prose to 100 columns. Tables and lines that are one unbreakable link are exempt.
func TestMarkdownWraps(t *testing.T) {
	t.Parallel()

	const columns = 100

	for _, name := range tracked(t, "*.md") {
		prose(readFile(t, filepath.Join("..", name)), func(number int, line string) {
			text := strings.TrimLeft(line, " -*")
			if utf8.RuneCountInString(line) > columns && !strings.HasPrefix(text, "|") && strings.ContainsRune(text, ' ') {
				t.Errorf("%s:%d has %d columns; prose wraps at %d", name, number, utf8.RuneCountInString(line), columns)
			}
		})
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors lists the fragments that GitHub gives the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}

	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := link.ReplaceAllString(m[1], "")
		found[strings.ReplaceAll(strings.ToLower(notWord.ReplaceAllString(text, "")), " ", "-")] = true
	}

	return found
}

// TestLinksLeadSomewhere follows every relative link of every page to a file, and its fragment to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()

	for _, name := range tracked(t, "*.md") {
		prose(readFile(t, filepath.Join("..", name)), func(number int, line string) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, fragment, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}

				file := name
				if target != "" {
					file = path.Join(path.Dir(name), target)
				}

				if info, err := os.Stat(filepath.Join("..", file)); err != nil {
					t.Errorf("%s:%d links to %s, which is not there", name, number, m[1])

					continue
				} else if info.IsDir() {
					file = path.Join(file, "README.md")
				}

				if fragment != "" && !anchors(readFile(t, filepath.Join("..", file)))[fragment] {
					t.Errorf("%s:%d links to %s, a heading that is not there", name, number, m[1])
				}
			}
		})
	}
}

// TestPagesAreShort limits the words of READMEs and decisions, and the terms of the glossary.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()

	const terms = 25

	for _, name := range tracked(t, "README.md", "services/*/README.md", "docs/decisions/*.md") {
		most := 900

		switch {
		case strings.HasSuffix(name, "/0001-sources.md"):
			most = 1000
		case strings.HasPrefix(name, "docs/decisions/"):
			most = 350
		}

		if n := len(strings.Fields(readFile(t, filepath.Join("..", name)))); n > most {
			t.Errorf("%s has %d words, at most %d", name, n, most)
		}
	}

	rows := strings.Count(readFile(t, filepath.Join("..", "docs", "glossary.md")), "\n| ") - 2
	if rows > terms {
		t.Errorf("docs/glossary.md has %d terms, at most %d", rows, terms)
	}
}

// sourcePath matches a code span that is a path, such as `internal/postgres/add.go`.
var sourcePath = regexp.MustCompile("`((?:api|internal|platform|lab|hack|client)/[^` ]+|Dockerfile|go\\.mod)`")

// TestSourcesNameFiles holds the paths in decision 0001 to files: each service's table names those below its folder.
func TestSourcesNameFiles(t *testing.T) {
	t.Parallel()

	const page = "docs/decisions/0001-sources.md"

	service := ""

	prose(readFile(t, filepath.Join("..", page)), func(number int, line string) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			service = name
		}

		if service == "" || !strings.HasPrefix(line, "|") {
			return
		}

		for _, m := range sourcePath.FindAllStringSubmatch(line, -1) {
			found, err := filepath.Glob(filepath.Join("..", "services", service, m[1]))
			if err != nil {
				t.Fatal(err)
			}

			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil && len(found) == 0 {
				t.Errorf("%s:%d names %s, which is not there", page, number, m[1])
			}
		}
	})
}
