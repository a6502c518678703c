package main

import (
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

// sourceTree is the root of the source tree, seen from here.
const sourceTree = "../../.."

// Every file of lab/mutants makes a mutant.
func TestMutantsAreThere(t *testing.T) {
	t.Parallel()
	var want []string
	for _, mutant := range prove.Mutants() {
		want = append(want, mutant.File())
	}
	slices.Sort(want)
	found, err := fs.Glob(os.DirFS(sourceTree), "lab/mutants/*")
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("lab/mutants has %q, want %q (%v)", found, want, err)
	}
}

// A change of a service can break a mutant, which nothing else compiles.
func TestMutantsAreBuilt(t *testing.T) {
	t.Parallel()
	for _, mutant := range prove.Mutants() {
		replacement, err := overlay(sourceTree, t.TempDir(), mutant)
		if err != nil {
			t.Fatal(err)
		}

		// All that can fail to compile, and from Go's cache what has not changed; programs would be linked each time.
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-overlay", replacement,
			"github.com/rowlock/rowlock/services/"+mutant.Service+"/internal/app")
		// As make build, whose packages are in Go's cache.
		cmd.Dir, cmd.Env = sourceTree, append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", mutant.File(), err, out)
		}
	}
}
