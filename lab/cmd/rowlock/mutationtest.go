package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

const (
	// mutantTimeout is the time in which the proof must have found a mutant.
	mutantTimeout = time.Minute
	// mutantWindow is the length of a fault window, which is repeated while there is time.
	mutantWindow = 10 * time.Second
)

// mutationTest is the command line of `rowlock mutation-test`.
type mutationTest struct {
	process

	mutants []prove.Mutant
	seed    uint64
	dir     string
}

func newMutationTest(p process) *cobra.Command {
	m := mutationTest{process: p}
	var all, chosen []string
	for _, mutant := range prove.Mutants() {
		all = append(all, mutant.Tag)
	}
	cmd := &cobra.Command{
		Use: "mutation-test", Aliases: []string{"bites"}, Args: noWords,
		Short: "Build known mistakes into the services and check that prove finds each within a minute",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, tag := range chosen {
				if !slices.Contains(all, tag) {
					return usageError{fmt.Sprintf("mutation-test: there is no mutant %q; there is %s", tag, strings.Join(all, ", "))}
				}
			}
			m.mutants = slices.DeleteFunc(prove.Mutants(), func(one prove.Mutant) bool {
				return len(chosen) > 0 && !slices.Contains(chosen, one.Tag)
			})
			return m.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&chosen, "mutant", nil, "build in this mutant instead of all; may be repeated: "+strings.Join(all, ", "))
	flags.Uint64Var(&m.seed, "seed", rand.Uint64N(1<<32), "seed of the schedules")
	randomSeed(flags)
	flags.StringVar(&m.dir, "out", filepath.Join(".tmp", "mutants"), "folder for the mutants' binaries, and for what was found")
	return cmd
}

// mutantResult says what came of one mutant.
type mutantResult struct {
	mutant prove.Mutant
	found  *prove.Failure // nil: not found
	took   time.Duration
	err    error // of the run itself
}

// run tests the mutants one after the other, and then that the same windows hold without a
// mutant: a proof that always fails finds every mutant.
func (m mutationTest) run(ctx context.Context) error {
	if _, err := os.Stat("go.work"); err != nil {
		return usageError{"mutation-test builds services from source: run it in the folder with go.work"}
	}
	var results []mutantResult
	var names, windows []string
	for _, mutant := range m.mutants {
		one, err := m.test(ctx, mutant)
		if err != nil {
			return err
		}
		results = append(results, one)
		if !slices.Contains(windows, mutant.Window) {
			windows = append(windows, mutant.Window)
		}
		names = append(names, mutant.Service)
	}
	say(m.stdout, "without a mutant")
	schedule, err := prove.Schedule(m.seed, mutantWindow, windows)
	if err != nil {
		return err
	}
	sound, err := m.prove(ctx, names, schedule, "", "none", nil)
	if sound == nil || ctx.Err() != nil {
		return err
	}
	say(m.stdout, "")
	return errors.Join(writeMutants(m.stdout, results), judgeMutants(m.stdout, results, sound, m.seed), err)
}

// test builds a mutant and repeats its window until the proof finds it or time is over.
func (m mutationTest) test(ctx context.Context, mutant prove.Mutant) (mutantResult, error) {
	one := mutantResult{mutant: mutant}
	binary, err := m.build(ctx, mutant)
	if err != nil {
		return one, err
	}
	say(m.stdout, "%s: %s in %s, window %s", mutant.Tag, mutant.What, mutant.Service, mutant.Window)
	var windows []prove.Window
	for i := range uint64(mutantTimeout / mutantWindow) {
		again, err := prove.Schedule(m.seed+i, mutantWindow, []string{mutant.Window})
		if err != nil {
			return one, err
		}
		windows = append(windows, again...)
	}
	begin := time.Now()
	_, one.err = m.prove(ctx, []string{mutant.Service}, windows, binary, mutant.Tag, func(r *prove.Report) bool {
		one.took = time.Since(begin)
		if one.took <= mutantTimeout {
			one.found = mutant.FoundBy(r)
		}
		return one.found != nil || one.took > mutantTimeout
	})
	return one, ctx.Err()
}

// prove runs windows of the named services, of which the only one has a binary unless that is "".
func (m mutationTest) prove(
	ctx context.Context, names []string, windows []prove.Window, binary, folder string, enough func(*prove.Report) bool,
) (*prove.Report, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	run := proof{process: m.process, windows: windows, enough: enough}
	run.options = proveOptions{services: chosen, replicas: 3, clients: 8, seed: m.seed, out: filepath.Join(m.dir, folder)}
	if binary != "" {
		run.binaries = map[string]string{names[0]: binary}
	}
	report, err := run.run(ctx)
	if report == nil {
		return nil, err
	}
	return report, errors.Join(err, saveProof(report, run.options.out, process{stdout: io.Discard}))
}

// build builds the mutant's service as make build does, whose packages are in Go's cache.
func (m mutationTest) build(ctx context.Context, mutant prove.Mutant) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(m.dir, mutant.Tag, mutant.Service)); err != nil {
		return "", fmt.Errorf("mutation-test: %w", err)
	}
	from := "./services/" + mutant.Service + "/cmd/" + mutant.Service
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", mutant.Tag, "-o", path, from)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = m.stderr, m.stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s with %s: %w", mutant.Service, mutant.Tag, err)
	}
	return path, nil
}

// writeMutants prints a row for each mutant.
func writeMutants(w io.Writer, results []mutantResult) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(tw, "mutant\tservice\twindow\tfound by\tseconds")
	for _, one := range results {
		found := "NOT FOUND"
		switch {
		case one.found != nil:
			found = one.found.Check + ": " + one.found.Detail
		case one.err != nil:
			found = "NOT FOUND, the run failed: " + one.err.Error()
		}
		const widest = 90
		if len(found) > widest {
			found = found[:widest] + "..."
		}
		say(tw, "%s\t%s\t%s\t%s\t%.0f", one.mutant.What, one.mutant.Service, one.mutant.Window, found, one.took.Seconds())
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// judgeMutants fails when a mutant was not found, or when a check failed without a mutant.
func judgeMutants(w io.Writer, results []mutantResult, sound *prove.Report, seed uint64) error {
	missed := 0
	for _, one := range results {
		if one.found == nil {
			missed++
		}
	}
	failures := sound.Failures()
	for _, f := range failures {
		say(w, "without a mutant: %s", f)
	}
	if missed > 0 || len(failures) > 0 {
		return fmt.Errorf("mutation-test: %d of %d mutants were not found, and %d checks failed without a mutant; seed %d",
			missed, len(results), len(failures), seed)
	}
	say(w, "\nAll %d mutants were found, each within %s; without a mutant the same windows hold. Seed %d.", len(results), mutantTimeout, seed)
	return nil
}
