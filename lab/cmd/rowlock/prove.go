package main

import (
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

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// proveOptions holds the flags of `rowlock prove`.
type proveOptions struct {
	services []services.Service
	replicas int
	clients  int
	length   time.Duration
	seed     uint64
	faults   []string
	out      string
	dsn      string
}

// shortestWindow leaves room for a fault, its timeouts and the second before and after.
const shortestWindow = 8 * time.Second

func newProve(p process) *cobra.Command {
	var o proveOptions
	var names []string
	cmd := &cobra.Command{
		Use: "prove", Short: "Inject faults into the running system and check the promises", Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			// An empty URL comes from a variable that is not set: it must not start a private server.
			if cmd.Flags().Changed("dsn") && o.dsn == "" {
				return usageError{"prove: --dsn is empty"}
			}
			if o.services, err = choose(names); err != nil {
				return err
			}
			return runProve(cmd.Context(), p, o)
		},
	}
	flags := cmd.Flags()
	serviceFlag(cmd, &names, "prove")
	flags.IntVar(&o.replicas, "replicas", 3, "replicas of each service")
	flags.IntVar(&o.clients, "clients", 8, "clients of each service")
	flags.DurationVar(&o.length, "for", 3*time.Minute, "length of all fault windows together")
	seedFlag(flags, &o.seed)
	flags.StringSliceVar(&o.faults, "faults", nil,
		"comma-separated fault windows instead of all: "+strings.Join(prove.Names(), ","))
	flags.StringVar(&o.dsn, "dsn", "",
		"PostgreSQL server to run on instead of a private one: `URL` of a role with CREATEDB and CREATEROLE")
	flags.StringVar(&o.out, "out", filepath.Join(".tmp", "proof"),
		"folder for proof.json, proof.html and pictures of violations; empty for none")
	return cmd
}

// windows checks the options and returns the schedule.
func (o proveOptions) windows() ([]prove.Window, error) {
	if o.replicas < 2 || o.replicas > 10 || o.clients < 1 || o.clients > 64 {
		return nil, usageError{"prove: --replicas must be between 2 and 10, --clients between 1 and 64"}
	}
	n := len(prove.Names())
	if len(o.faults) > 0 {
		n = len(o.faults)
	}
	length := o.length / time.Duration(n)
	if length < shortestWindow {
		return nil, usageError{fmt.Sprintf("prove: %s for %d windows are less than %s for each", o.length, n, shortestWindow)}
	}
	windows, err := prove.Schedule(o.seed, length, o.faults)
	if err != nil {
		return nil, usageError{"prove: " + err.Error()}
	}
	windows = slices.DeleteFunc(windows, func(w prove.Window) bool { return o.dsn != "" && w.NeedsOwner() })
	if len(windows) == 0 {
		return nil, usageError{"prove: only the owner of the server can inject that, so there is nothing to run with --dsn"}
	}
	return windows, nil
}

func runProve(ctx context.Context, p process, o proveOptions) error {
	windows, err := o.windows()
	if err != nil {
		return err
	}
	run := proof{process: p, options: o, windows: windows, maria: o.dsn == ""}
	if o.dsn != "" {
		if run.remote, err = openRemote(ctx, p, o); err != nil {
			return err
		}
	}
	say(p.stdout, "Seed %d, %d replicas and %d clients of each service, %d fault windows",
		o.seed, o.replicas, o.clients, len(run.windows))
	for _, w := range run.windows {
		say(p.stdout, "  %s", w)
	}
	report, err := run.run(ctx)
	if report == nil || ctx.Err() != nil {
		return err
	}
	return conclude(report, err, o.out, p)
}

// conclude saves the report and prints what came of the run. The error of a run that left something behind comes last.
func conclude(report *prove.Report, err error, out string, p process) error {
	return errors.Join(saveProof(report, out, p), summarize(report, p), err)
}

// summarize prints what holds and what does not. A promise that was broken is a violation;
// a run that failed by itself is an error like others.
func summarize(report *prove.Report, p process) error {
	failures := report.Failures()
	say(p.stdout, "")
	for _, note := range report.Notes {
		say(p.stdout, "Not part of this proof: %s.", note)
	}
	if len(failures) == 0 {
		say(p.stdout, "Everything that was promised held, in %s. Seed %d.", report.Took.Round(time.Second), report.Seed)
		return nil
	}
	for _, f := range failures {
		say(p.stdout, "%s", f)
	}
	if !slices.ContainsFunc(failures, func(f prove.Failure) bool { return !f.OfRun() }) {
		return fmt.Errorf("prove: the run itself failed, and proves nothing; seed %d", report.Seed)
	}
	return violation{report.Seed}
}

// violation reports that a promise was broken. It has an exit status of its own.
type violation struct{ seed uint64 }

func (v violation) Error() string { return fmt.Sprintf("prove: not proven; seed %d", v.seed) }

// saveProof writes the report as JSON and as a page, over those of an earlier run.
func saveProof(report *prove.Report, dir string, p process) error {
	if dir == "" {
		return nil
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("prove: encode the proof: %w", err)
	}
	var page strings.Builder
	if err := report.WritePage(&page); err != nil {
		return err
	}
	jsonPath, pagePath := filepath.Join(dir, "proof.json"), filepath.Join(dir, "proof.html")
	err = errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(jsonPath, append(raw, '\n'), 0o644),
		os.WriteFile(pagePath, []byte(page.String()), 0o644),
	)
	if err != nil {
		return fmt.Errorf("prove: save the proof: %w", err)
	}
	say(p.stdout, "\nReports: %s and %s", jsonPath, pagePath)
	return nil
}
