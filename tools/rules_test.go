package tools_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRulesAreEnforced runs depguard and forbidigo, as .golangci.yml configures them, over testdata/rules: a small
// repository with the same layout and import paths as this one, in which every `// want LINTER "text"` marks a line
// that must be refused with that text, and every other line must pass. A rule that nothing there breaks fails the test
// too.
func TestRulesAreEnforced(t *testing.T) {
	t.Parallel()

	repo := copyRules(t)
	report := lint(t, repo)
	wanted := expectations(t, repo)

	for at, want := range wanted {
		if !slices.ContainsFunc(report, func(line string) bool {
			return strings.HasPrefix(line, at) && strings.Contains(line, want.text) && strings.HasSuffix(line, want.linter)
		}) {
			t.Errorf("not refused: %s %s %s", at, want.text, want.linter)
		}
	}

	for _, line := range report {
		if _, ok := wanted[place.FindString(line)]; !ok {
			t.Errorf("refused without cause: %s", line)
		}
	}

	all, config := strings.Join(report, "\n"), readFile(t, filepath.Join("..", ".golangci.yml"))
	for _, rule := range submatches(t, section(t, config, "depguard"), `(?m)^        ([a-z-]+):$`) {
		if !strings.Contains(all, "list '"+rule+"'") {
			t.Errorf("depguard rule %q is untested: nothing in testdata/rules breaks it", rule)
		}
	}

	for _, message := range submatches(t, section(t, config, "forbidigo"), `(?m)^          msg: (.*)$`) {
		if !strings.Contains(all, message) {
			t.Errorf("forbidigo's rule %q is untested: nothing in testdata/rules breaks it", message)
		}
	}
}

// copyRules copies testdata/rules to an empty folder and makes it one module whose dependencies are platform's, so
// that the linter sees real types without a network.
func copyRules(t *testing.T) string {
	t.Helper()

	repo := t.TempDir()
	if err := os.CopyFS(repo, os.DirFS(filepath.Join("testdata", "rules"))); err != nil {
		t.Fatal(err)
	}

	const modulePath = "module github.com/rowlock/rowlock"

	goMod := readFile(t, filepath.Join("..", "platform", "go.mod"))
	if !strings.HasPrefix(goMod, modulePath+"/platform\n") {
		t.Fatalf("platform/go.mod begins with %q", strings.SplitN(goMod, "\n", 2)[0])
	}

	writeFile(t, filepath.Join(repo, "go.mod"), modulePath+strings.TrimPrefix(goMod, modulePath+"/platform"))
	writeFile(t, filepath.Join(repo, "go.sum"), readFile(t, filepath.Join("..", "platform", "go.sum")))
	writeFile(t, filepath.Join(repo, ".golangci.yml"), readFile(t, filepath.Join("..", ".golangci.yml")))

	return repo
}

// lint returns the report of depguard and forbidigo, by its lines: "platform/probe/pool.go:9:2: text (depguard)".
// A repo that does not compile fails the test: without types forbidigo finds nothing.
func lint(t *testing.T, repo string) []string {
	t.Helper()

	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", "golangci-lint")
	cmd.Env = append(cmd.Environ(), "GOWORK=off")

	linter, err := cmd.Output()
	if err != nil {
		t.Fatalf("go tool -n golangci-lint: %v", err)
	}

	report := filepath.Join(t.TempDir(), "report")

	cmd = exec.CommandContext(t.Context(), strings.TrimSpace(string(linter)), "run", "--enable-only=depguard,forbidigo",
		"--output.text.path="+report, "--output.text.print-issued-lines=false", "--output.text.colors=false",
		"--issues-exit-code=0", "--show-stats=false", "./...")
	cmd.Dir = repo
	cmd.Env = append(cmd.Environ(), "GOWORK=off")

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("golangci-lint run: %v\n%s", err, out)
	}

	return strings.Split(strings.TrimSpace(readFile(t, report)), "\n")
}

var (
	place       = regexp.MustCompile(`^[^:]+:\d+:`)
	wantComment = regexp.MustCompile(`// want (depguard|forbidigo) "([^"]+)"$`)
)

// expectation is what a line is to be refused with.
type expectation struct{ text, linter string }

// expectations reads those of testdata/rules, by "file:line:".
func expectations(t *testing.T, repo string) map[string]expectation {
	t.Helper()

	wanted := map[string]expectation{}

	walk(t, repo, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}

		name, err := filepath.Rel(repo, path)
		if err != nil {
			t.Fatal(err)
		}

		for i, line := range strings.Split(readFile(t, path), "\n") {
			if m := wantComment.FindStringSubmatch(line); m != nil {
				wanted[fmt.Sprintf("%s:%d:", filepath.ToSlash(name), i+1)] = expectation{m[2], "(" + m[1] + ")"}
			} else if strings.Contains(line, "// want") {
				t.Fatalf("%s:%d: cannot read %q", name, i+1, line)
			}
		}
	})

	if len(wanted) == 0 {
		t.Fatal("testdata/rules asks for nothing")
	}

	return wanted
}

// section cuts one linter's settings out of the configuration by its indentation.
func section(t *testing.T, config, linter string) string {
	t.Helper()

	_, after, ok := strings.Cut(config, "\n    "+linter+":\n")
	if !ok {
		t.Fatalf(".golangci.yml has no settings for %s", linter)
	}

	if end := regexp.MustCompile(`(?m)^ {0,4}[a-z]`).FindStringIndex(after); end != nil {
		after = after[:end[0]]
	}

	return after
}

func submatches(t *testing.T, text, expr string) []string {
	t.Helper()

	var out []string
	for _, m := range regexp.MustCompile(expr).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}

	if len(out) == 0 {
		t.Fatalf("%s matches nothing", expr)
	}

	return out
}

func walk(t *testing.T, root string, visit func(path string)) {
	t.Helper()

	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			visit(path)
		}

		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return string(b)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
