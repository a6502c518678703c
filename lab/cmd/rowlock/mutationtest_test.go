package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// Every mutant stands behind its tag in its service, or in platform, beside what is right; and all
// of them can be built.
func TestMutantsAreBuilt(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	args := []string{"build", "-trimpath", "-tags", ""}
	for _, mutant := range prove.Mutants() {
		with, without := 0, 0
		service := filepath.Join(root, "services", mutant.Service, "internal")
		for _, folder := range []string{service, filepath.Join(root, "platform")} {
			err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
				if err != nil || filepath.Ext(path) != ".go" {
					return err
				}
				text, err := os.ReadFile(path) //nolint:gosec // of this repository
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

func TestMutationTestConclude(t *testing.T) {
	t.Parallel()
	m, tested := mutationTest{process: process{stdout: io.Discard}}, len(prove.Mutants())
	sound := &prove.Report{Windows: []*prove.WindowResult{{Services: []prove.ServiceResult{{Service: "counts"}}}}}
	if err := m.conclude(tested, nil, sound); err != nil {
		t.Errorf("all are found: %v", err)
	}
	err := m.conclude(tested, []string{"bug_now"}, sound)
	want := fmt.Sprintf("1 of %d mutants were not found (bug_now)", tested)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("one is not found: %v", err)
	}
	if err := m.conclude(tested, nil, &prove.Report{}); err == nil {
		t.Error("the proof fails without a mutant, and the test does not")
	}
}
