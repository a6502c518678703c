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

	"github.com/rowlock/rowlock/lab/internal/guest"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
)

const (
	// biteWithin is the time in which the proof must have found a bug.
	biteWithin = time.Minute
	// biteWindow is the length of a window; it is repeated while there is time.
	biteWindow = 10 * time.Second
)

// bites is the command line of `rowlock bites`.
type bites struct {
	process

	bugs []prove.Bug
	seed uint64
	dir  string
	dsn  string
	host *guest.Server // that dsn names
}

func newMutationTest(p process) *cobra.Command {
	b := bites{process: p}
	var tags []string
	cmd := &cobra.Command{
		Use: "mutation-test", Aliases: []string{"bites"},
		Short: "Build services with known bugs and check that prove finds each within a minute",
		Args:  noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.choose(tags); err != nil {
				return err
			}
			return b.runAll(cmd.Context())
		},
	}
	var all []string
	for _, bug := range prove.Bugs() {
		all = append(all, bug.Tag)
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&tags, "bug", nil,
		"build in this bug instead of all, one after the other; may be repeated: "+strings.Join(all, ", "))
	dsnFlag(flags, &b.dsn)
	flags.Uint64Var(&b.seed, "seed", rand.Uint64N(1<<32), "seed of the schedules")
	randomSeed(flags)
	flags.StringVar(&b.dir, "out", filepath.Join(".tmp", "bites"), "folder for the binaries with bugs, and for what was found")
	return cmd
}

// choose takes the bugs of those tags, all when there are none.
func (b *bites) choose(tags []string) error {
	all := prove.Bugs()
	for _, tag := range tags {
		i := slices.IndexFunc(all, func(bug prove.Bug) bool { return bug.Tag == tag })
		if i < 0 {
			return usageError{fmt.Sprintf("mutation-test: there is no bug %q", tag)}
		}
		b.bugs = append(b.bugs, all[i])
	}
	if len(tags) == 0 {
		b.bugs = all
	}
	return nil
}

// options are those of a run of all services that have a bug.
func (b bites) options() proveOptions {
	o := proveOptions{replicas: 3, clients: 8, seed: b.seed, dsn: b.dsn}
	for _, s := range services.All() {
		if slices.ContainsFunc(b.bugs, func(bug prove.Bug) bool { return bug.Service == s.Name }) {
			o.services = append(o.services, s)
		}
	}
	return o
}

// bite is what came of one bug, or of a run without any.
type bite struct {
	bug    prove.Bug
	caught *prove.Failure // nil: not at all
	unseen string         // why this server cannot show the bug; "" when it can, or did
	took   time.Duration
	report *prove.Report
	err    error // of the run itself
}

// runAll is `rowlock mutation-test`. First of all the same windows must hold without a bug:
// a proof that always fails finds every bug.
func (b bites) runAll(ctx context.Context) (err error) {
	p := b.process
	if _, err := os.Stat("go.work"); err != nil {
		return usageError{"mutation-test builds services from source: run it in the folder with go.work"}
	}
	if b.host, err = look(ctx, p, "mutation-test", b.options()); err != nil {
		return err
	}
	var found []bite
	for _, bug := range b.bugs {
		one, err := b.bite(ctx, bug)
		if err != nil {
			return err
		}
		found = append(found, one)
	}
	begin := time.Now()
	sound, err := b.sound(ctx)
	if err != nil {
		return err
	}
	say(p.stdout, "")
	return concludeBites(p.stdout, found, sound, time.Since(begin), b.seed)
}

// concludeBites tells what came of all runs. What they could not give back is said last.
func concludeBites(w io.Writer, found []bite, sound bite, took time.Duration, seed uint64) error {
	reports := make([]*prove.Report, 0, len(found)+1)
	var left error
	for _, one := range append(slices.Clone(found), sound) {
		reports = append(reports, one.report)
		if stays, ok := errors.AsType[leaveError](one.err); ok {
			left = errors.Join(left, stays)
		}
	}
	err := writeBites(w, found)
	say(w, "")
	sayMissing(w, reports...)
	return errors.Join(err, verdictOfBites(w, found, sound.report, took, seed), left)
}

// bite builds a bug in and repeats its window until it is caught, or time is over.
func (b bites) bite(ctx context.Context, bug prove.Bug) (bite, error) {
	one := bite{bug: bug}
	binary, err := b.build(ctx, bug)
	if err != nil {
		return one, err
	}
	say(b.stdout, "%s: %s in %s, window %s", bug.Tag, bug.What, bug.Service, bug.Window)
	begin := time.Now()
	enough := func(r *prove.Report) bool {
		one.caught, one.took = bug.CaughtBy(r), time.Since(begin)
		return one.caught != nil || one.took > biteWithin || bug.Unseen(r) != ""
	}
	windows, binaries := b.windows(bug.Window, int(biteWithin/biteWindow)), map[string]string{bug.Service: binary}
	one.report, one.err = b.run(ctx, []string{bug.Service}, windows, binaries, filepath.Join(b.dir, bug.Tag), enough)
	if ctx.Err() != nil || one.report == nil {
		return one, one.err
	}
	if one.took > biteWithin {
		one.caught = nil
	}
	if one.caught == nil && one.report.Broken == "" {
		one.unseen = bug.Unseen(one.report)
	}
	return one, nil
}

// sound runs the windows of the bugs without any bug.
func (b bites) sound(ctx context.Context) (bite, error) {
	say(b.stdout, "without a bug")
	var names, windows []string
	for _, bug := range b.bugs {
		if !slices.Contains(names, bug.Service) {
			names = append(names, bug.Service)
		}
		if !slices.Contains(windows, bug.Window) {
			windows = append(windows, bug.Window)
		}
	}
	schedule, err := prove.Schedule(b.seed, biteWindow, windows)
	if err != nil {
		return bite{}, usageError{"bites: " + err.Error()}
	}
	report, err := b.run(ctx, names, schedule, nil, filepath.Join(b.dir, "none"), nil)
	if report == nil || ctx.Err() != nil {
		return bite{}, err
	}
	return bite{report: report, err: err}, nil // what broke the run is in the report, which fails by it
}

// windows is the same window n times, each with a seed of its own.
func (b bites) windows(name string, n int) []prove.Window {
	var all []prove.Window
	for i := range n {
		one, err := prove.Schedule(b.seed+uint64(i), biteWindow, []string{name})
		if err != nil {
			panic(err) // a name of ours
		}
		all = append(all, one...)
	}
	return all
}

func (b bites) run(
	ctx context.Context, names []string, windows []prove.Window, binaries map[string]string, out string, enough func(*prove.Report) bool,
) (*prove.Report, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	o := b.options()
	o.services, o.out = chosen, out
	report, err := prover{process: b.process, options: o, windows: windows, binaries: binaries, enough: enough, host: b.host}.run(ctx)
	if report == nil {
		return nil, err
	}
	return report, errors.Join(err, saveProof(report, out, process{stdout: io.Discard}))
}

// build builds a service with the bug in it.
func (b bites) build(ctx context.Context, bug prove.Bug) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(b.dir, bug.Tag, bug.Service)); err != nil {
		return "", fmt.Errorf("bites: %w", err)
	}
	// Built as make build does, whose packages are in Go's cache.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", bug.Tag, "-o", path, "./services/"+bug.Service+"/cmd/"+bug.Service)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = b.stderr, b.stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s with %s: %w", bug.Service, bug.Tag, err)
	}
	return path, nil
}

// writeBites prints what came of the bugs as a table.
func writeBites(w io.Writer, found []bite) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "bug\tservice\twindow\tcaught by\tseconds")
	for _, one := range found {
		caught := "NOT CAUGHT"
		switch {
		case one.caught != nil:
			caught = one.caught.Check + ": " + one.caught.Detail
		case one.unseen != "":
			caught = "left out: " + one.unseen
		case one.err != nil:
			caught = "NOT CAUGHT, the run failed: " + one.err.Error()
		}
		const widest = 90
		if len(caught) > widest {
			caught = caught[:widest] + "..."
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.0f\n", one.bug.What, one.bug.Service, one.bug.Window, caught, one.took.Seconds())
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// verdictOfBites fails when a bug was not caught, or when something was found where
// there is no bug. One that the server cannot show counts for nothing.
func verdictOfBites(w io.Writer, found []bite, sound *prove.Report, took time.Duration, seed uint64) error {
	failed, unseen := 0, 0
	for _, one := range found {
		switch {
		case one.unseen != "":
			unseen++
			say(w, "%s (%s) is left out: %s", one.bug.Tag, one.bug.What, one.unseen)
		case one.caught == nil:
			failed++
		}
	}
	failures := sound.Failures()
	for _, f := range failures {
		say(w, "without a bug: %s", f)
	}
	caught := len(found) - unseen
	if failed > 0 || len(failures) > 0 {
		return fmt.Errorf("bites: %d of %d bugs were not caught, and %d checks failed without a bug; seed %d",
			failed, caught, len(failures), seed)
	}
	if caught == 0 {
		return fmt.Errorf("bites: this server can show none of the bugs; seed %d", seed)
	}
	which := ""
	if unseen > 0 {
		which = " that the server can show"
	}
	say(w, "\nAll %d bugs%s were caught, each within %s; without a bug the same windows hold (%s). Seed %d.",
		caught, which, biteWithin, round(took), seed)
	return nil
}
