package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
)

const (
	// mutantTimeout is the time in which the proof must have found a mutant.
	mutantTimeout = time.Minute
	// mutantWindow is the length of a fault window, which is repeated while there is time.
	mutantWindow = 10 * time.Second
)

// mutationTest holds the flags of `rowlock mutation-test`.
type mutationTest struct {
	process

	mutants []prove.Mutant
	seed    uint64
	dir     string
}

func newMutationTest(p process) *cobra.Command {
	m := mutationTest{process: p}
	var chosen []string
	all := make([]string, len(prove.Mutants()))
	for i, mutant := range prove.Mutants() {
		all[i] = mutant.Name
	}

	cmd := &cobra.Command{
		Use: "mutation-test", Args: noWords,
		Short:   "Build known mistakes into the services and check that prove finds each within a minute",
		Example: "  rowlock mutation-test --mutant unordered --seed 3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range chosen {
				if !slices.Contains(all, name) {
					return usageError{fmt.Sprintf("mutation-test: there is no mutant %q; there is %s", name, strings.Join(all, ", "))}
				}
			}
			m.mutants = slices.DeleteFunc(prove.Mutants(), func(one prove.Mutant) bool {
				return len(chosen) > 0 && !slices.Contains(chosen, one.Name)
			})
			return m.run(cmd.Context())
		},
	}

	flags := cmd.Flags()
	flags.StringArrayVar(&chosen, "mutant", nil,
		"build in this mutant instead of all; may be repeated: "+strings.Join(all, ", "))
	seedFlag(flags, &m.seed)
	flags.StringVar(&m.dir, "out", filepath.Join(".tmp", "mutants"),
		"folder for the mutants' binaries, and for what was found")
	return cmd
}

// run tests the mutants one after the other, and then that the same windows hold without a
// mutant: a proof that always fails finds every mutant.
func (m mutationTest) run(ctx context.Context) error {
	if _, err := os.Stat("go.work"); err != nil {
		return usageError{"mutation-test builds services from source: run it in the folder with go.work"}
	}
	var names, windows, missed []string
	for _, mutant := range m.mutants {
		say(m.stdout, "%s: %s in %s, window %s", mutant.Name, mutant.What, mutant.Service, mutant.Window)
		found, took, err := m.test(ctx, mutant)
		if err != nil && ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errSkipped) { // for a reason that has been said
			continue
		}
		if found != nil {
			say(m.stdout, "%s: found by %s (%s) after %.1fs", mutant.Name, found.Name, found.Detail, took.Seconds())
		} else {
			say(m.stdout, "%s: NOT FOUND within %s (%v)", mutant.Name, mutantTimeout, err)
			missed = append(missed, mutant.Name)
		}
		names, windows = append(names, mutant.Service), append(windows, mutant.Window)
	}

	if names == nil {
		say(m.stdout, "No mutant could be tested here.")
		return nil
	}
	say(m.stdout, "without a mutant")
	schedule, err := prove.Schedule(m.seed, mutantWindow, windows)
	if err != nil {
		return err
	}

	sound, err := m.prove(ctx, names, "none", &proof{proveOptions: proveOptions{Setup: prove.Setup{Windows: schedule}}})
	if sound == nil || err != nil && ctx.Err() != nil {
		return err
	}
	return errors.Join(m.conclude(len(names), missed, sound), err)
}

// conclude fails when a mutant was not found, or when a check failed without a mutant.
func (m mutationTest) conclude(tested int, missed []string, sound *prove.Report) error {
	failures := sound.Failures()
	for _, f := range failures {
		say(m.stdout, "without a mutant: %s", f)
	}
	if len(missed) > 0 || len(failures) > 0 {
		return fmt.Errorf("mutation-test: %d of %d mutants were not found (%s), "+
			"and %d checks failed without a mutant; seed %d",
			len(missed), tested, strings.Join(missed, ", "), len(failures), m.seed)
	}
	say(m.stdout, "\nAll %d mutants were found, each within %s; without a mutant the same windows hold. Seed %d.",
		tested, mutantTimeout, m.seed)
	return nil
}

// test builds a mutant and repeats its window until the proof finds it or time is over.
func (m mutationTest) test(
	ctx context.Context, mutant prove.Mutant,
) (found *prove.Failure, took time.Duration, err error) {
	binary, err := m.build(ctx, mutant)
	if err != nil {
		return nil, 0, err
	}
	run := &proof{binaries: map[string]string{mutant.Service: binary}}
	for i := range uint64(mutantTimeout / mutantWindow) {
		again, err := prove.Schedule(m.seed+i, mutantWindow, []string{mutant.Window})
		if err != nil {
			return nil, 0, err
		}
		run.Windows = append(run.Windows, again...)
	}

	begin := time.Now()
	run.Enough = func(r *prove.Report) bool {
		took = time.Since(begin)
		if took <= mutantTimeout {
			found = mutant.FoundBy(r)
		}
		return found != nil || took > mutantTimeout
	}
	_, err = m.prove(ctx, []string{mutant.Service}, mutant.Name, run)
	return found, took, err
}

// errSkipped is a run all of whose windows need what is not installed.
var errSkipped = errors.New("mutation-test: the run was skipped")

// prove runs the proof of the named services, and saves the report in the folder of that name.
func (m mutationTest) prove(ctx context.Context, names []string, folder string, run *proof) (*prove.Report, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	run.process, run.chosen = m.process, chosen
	run.Replicas, run.Clients, run.Seed, run.Out = 3, 8, m.seed, filepath.Join(m.dir, folder)
	report, err := run.groups(ctx)
	if report == nil && err == nil {
		return nil, errSkipped
	}
	if report == nil {
		return nil, err
	}
	return report, errors.Join(err, saveProof(report, run.Out))
}

// build builds the mutant's service.
func (m mutationTest) build(ctx context.Context, mutant prove.Mutant) (path string, err error) {
	folder, err := filepath.Abs(filepath.Join(m.dir, mutant.Name))
	if err != nil {
		return "", err
	}

	replacement, err := overlay(".", folder, mutant)
	if err != nil {
		return "", err
	}

	path = filepath.Join(folder, mutant.Service)
	return path, local.Build(ctx, ".", mutant.Service, path, m.stderr, "-overlay", replacement)
}

// overlay makes the mistake in a copy of the file that the mutant's diff names, below root. It returns the path of a
// file for go build -overlay, by which the compiler reads the copy instead. Both are in the folder.
func overlay(root, folder string, mutant prove.Mutant) (path string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", err
	}
	diff, err := os.ReadFile(filepath.Join(root, mutant.File()))
	if err != nil {
		return "", err
	}
	header, hunks, _ := strings.Cut(string(diff), "\n@@ ")
	_, name, _ := strings.Cut(header, "+++ b/")
	right, wrong := filepath.Join(root, name), filepath.Join(folder, filepath.Base(name))

	text, err := os.ReadFile(right)
	if err == nil {
		text, err = patch(text, hunks)
	}
	if err != nil {
		return "", fmt.Errorf("mutation-test: %s: %w", mutant.File(), err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {right: wrong}})
	path = filepath.Join(folder, "overlay.json")
	return path, errors.Join(err, os.MkdirAll(folder, 0o755),
		os.WriteFile(wrong, text, 0o600), os.WriteFile(path, list, 0o600))
}

// patch applies the hunks of a unified diff. The lines of each must be found exactly once. Their numbers do not matter,
// so changes elsewhere in the file do no harm.
func patch(text []byte, hunks string) ([]byte, error) {
	for hunk := range strings.SplitSeq(strings.TrimSuffix(hunks, "\n"), "\n@@ ") {
		_, lines, _ := strings.Cut(hunk, "\n")
		var before, after []byte
		for line := range strings.Lines(lines + "\n") {
			text := strings.TrimLeft(line[:1], " +-") + line[1:] // an empty line of context may have lost its space
			if line[0] != '+' {
				before = append(before, text...)
			}
			if line[0] != '-' {
				after = append(after, text...)
			}
		}

		if n := bytes.Count(text, before); n != 1 {
			return nil, fmt.Errorf("%d places have the lines\n%s", n, before)
		}
		text = bytes.Replace(text, before, after, 1)
	}
	return text, nil
}
