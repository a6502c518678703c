package workflows_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// root is the repository's.
const root = "../.."

var (
	pinned  = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	release = regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	target  = regexp.MustCompile(`\bmake ([a-z0-9-]+)`)
	program = regexp.MustCompile(`\bhack/[a-z-]+`)
)

// TestWorkflowsAreSafe holds for GitHub's workflows what actionlint does not look at.
func TestWorkflowsAreSafe(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("there are no workflows: %v", err)
	}

	for _, name := range files {
		for _, flaw := range flaws(t, readFile(t, name)) {
			t.Errorf("%s: %s", name, flaw)
		}
	}
}

// TestUnsafeWorkflowsAreSeen demands every flaw of a workflow that has them all, and no other.
func TestUnsafeWorkflowsAreSeen(t *testing.T) {
	t.Parallel()

	text := readFile(t, filepath.Join("testdata", "unsafe.yml"))
	found := flaws(t, text)

	for i, line := range strings.Split(text, "\n") {
		_, want, marked := strings.Cut(line, "# want: ")
		seen := slices.ContainsFunc(found, func(flaw string) bool {
			return strings.HasPrefix(flaw, fmt.Sprintf("line %d: %s", i+1, want))
		})

		if marked != seen {
			t.Errorf("line %d: %s: want %t, found %q", i+1, line, marked, found)
		}
	}
}

// flaws lists what is unsafe in a workflow: rights that are not named, jobs without an end, actions whose tag may move,
// values inside a script, which the author of a branch may choose, and make targets and programs that are not there.
func flaws(t *testing.T, text string) (found []string) {
	t.Helper()

	workflow, errs := actionlint.Parse([]byte(text))
	if len(errs) > 0 {
		t.Fatalf("%v", errs)
	}

	lines := strings.Split(text, "\n")
	flaw := func(pos *actionlint.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("line %d: ", pos.Line)+fmt.Sprintf(format, args...))
	}

	first := &actionlint.Pos{Line: 1}
	if p := workflow.Permissions; p == nil || p.All != nil || len(p.Scopes) > 0 {
		flaw(first, "a workflow begins with permissions: {}, and each job names its own")
	}

	if workflow.Concurrency == nil {
		flaw(first, "no concurrency")
	}

	for _, event := range workflow.On {
		if hook, ok := event.(*actionlint.WebhookEvent); ok && hook.Hook.Value == "pull_request_target" {
			flaw(hook.Pos, "pull_request_target gives a fork's branch the repository's secrets")
		}
	}

	for _, id := range slices.Sorted(maps.Keys(workflow.Jobs)) {
		job := workflow.Jobs[id]
		if job.Permissions == nil || job.Permissions.All != nil {
			flaw(job.Pos, "job %s does not name its permissions", id)
		}

		if job.TimeoutMinutes == nil && job.WorkflowCall == nil {
			flaw(job.Pos, "job %s has no timeout-minutes", id)
		}

		for _, step := range job.Steps {
			switch exec := step.Exec.(type) {
			case *actionlint.ExecRun:
				script(t, exec, flaw)
			case *actionlint.ExecAction:
				action(t, exec, lines[exec.Uses.Pos.Line-1], flaw)
			}
		}
	}

	return found
}

type report func(pos *actionlint.Pos, format string, args ...any)

// script reports what is wrong with a step that runs commands.
func script(t *testing.T, exec *actionlint.ExecRun, flaw report) {
	t.Helper()

	if strings.Contains(exec.Run.Value, "${{") {
		flaw(exec.Run.Pos, "a value is put into the script itself: hand it over by env")
	}

	for _, name := range target.FindAllStringSubmatch(exec.Run.Value, -1) {
		if !strings.Contains(readFile(t, filepath.Join(root, "Makefile")), "\n"+name[1]+":") {
			flaw(exec.Run.Pos, "there is no make %s", name[1])
		}
	}

	for _, name := range program.FindAllString(exec.Run.Value, -1) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			flaw(exec.Run.Pos, "there is no %s", name)
		}
	}
}

// action reports what is wrong with a step that uses an action, by the line that names it.
func action(t *testing.T, exec *actionlint.ExecAction, line string, flaw report) {
	t.Helper()

	pos := exec.Uses.Pos
	if !pinned.MatchString(exec.Uses.Value) || !release.MatchString(line) {
		flaw(pos, "%s is not pinned by a commit, with the release beside it as # v1.2.3", exec.Uses.Value)
	}

	input := func(name string) string {
		if given := exec.Inputs[name]; given != nil {
			return given.Value.Value
		}

		return ""
	}

	switch name, _, _ := strings.Cut(exec.Uses.Value, "@"); name {
	case "actions/checkout":
		if input("persist-credentials") != "false" {
			flaw(pos, "the token stays in the clone")
		}
	case "actions/setup-go":
		if input("go-version-file") != "go.work" || input("go-version") != "" {
			flaw(pos, "the images are built with the toolchain of go.work: go-version-file: go.work")
		}
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
