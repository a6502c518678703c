package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
)

func TestMutationTestFlags(t *testing.T) {
	t.Parallel()
	refused(t, "mutation-test --mutant bug_tea", `"bug_tea"`)
	refused(t, "bites tea", `"tea"`)
	refused(t, "mutation-test --mutant bug_now", "go.work") // which is not here
}

// Every mutant stands behind its tag in its service, or in platform, beside what is right; and all
// of them can be built.
func TestMutantsAreBuilt(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	args := []string{"build", "-trimpath", "-tags", ""}
	for _, mutant := range prove.Mutants() {
		with, without := 0, 0
		for _, folder := range []string{filepath.Join(root, "services", mutant.Service, "internal"), filepath.Join(root, "platform")} {
			err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
				if err != nil || filepath.Ext(path) != ".go" {
					return err
				}
				text, err := os.ReadFile(path)
				with += strings.Count(string(text), "//go:build "+mutant.Tag+"\n")
				without += strings.Count(string(text), "//go:build !"+mutant.Tag+"\n")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if with != 1 || without != 1 {
			t.Errorf("%s: %d files with the mistake and %d without", mutant.Tag, with, without)
		}
		args[3] += mutant.Tag + ","
	}
	for _, name := range services.Names() {
		args = append(args, "github.com/rowlock/rowlock/services/"+name+"/internal/app")
	}
	// All that can fail to compile, and from Go's cache what has not changed; programs would be linked each time.
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, append(cmd.Environ(), "CGO_ENABLED=0") // as make build, whose packages are in Go's cache
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMutantsTable(t *testing.T) {
	t.Parallel()
	mutant := prove.Mutants()[0]
	found := mutantResult{mutant: mutant, found: &prove.Failure{Check: "linearizable", Detail: strings.Repeat("x", 200)}, took: 7 * time.Second}
	missed := mutantResult{mutant: mutant, took: time.Minute}
	failed := mutantResult{mutant: mutant, err: errors.New("no server")}
	var b strings.Builder
	if err := writeMutants(&b, []mutantResult{found, missed, failed}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{"found by", "linearizable: xxx", "NOT FOUND", "no server"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) || len(lines[i]) > 250 {
			t.Fatalf("line %d has no %q:\n%s", i, want, b.String())
		}
	}
	sound := &prove.Report{Windows: []*prove.WindowResult{{Services: []prove.ServiceResult{{Service: "counts"}}}}}
	for name, tc := range map[string]struct {
		results []mutantResult
		sound   *prove.Report
		ok      bool
	}{
		"all are found":                  {[]mutantResult{found}, sound, true},
		"one is not":                     {[]mutantResult{found, missed}, sound, false},
		"the proof fails without mutant": {[]mutantResult{found}, &prove.Report{}, false},
	} {
		if err := judgeMutants(io.Discard, tc.results, tc.sound, 1); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
