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

	"github.com/rowlock/rowlock/lab/internal/patroni"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localcitus"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// proveOptions holds the flags of `rowlock prove`.
type proveOptions struct {
	prove.Setup

	chosen []targets.Service
	length time.Duration
	faults []string
	dsn    string
	// cluster is "" or citus.
	cluster string
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
			if o.chosen, err = choose(names); err != nil {
				return err
			}
			return runProve(cmd.Context(), p, o)
		},
	}

	flags := cmd.Flags()
	serviceFlag(cmd, &names, "prove")
	flags.IntVar(&o.Replicas, "replicas", 3, "replicas of each service")
	flags.IntVar(&o.Clients, "clients", 8, "clients of each service")
	flags.DurationVar(&o.length, "for", 3*time.Minute, "length of all fault windows together")
	seedFlag(flags, &o.Seed)
	flags.StringSliceVar(&o.faults, "faults", nil,
		"comma-separated fault windows: "+strings.Join(prove.NamedOnly(), ",")+
			", which run on servers of their own and only when they are named, or some of the usual "+
			strings.Join(prove.Names(), ",")+"; with --cluster some of "+strings.Join(prove.OnCitus(), ","))

	flags.StringVar(&o.cluster, "cluster", "",
		"`citus`: a coordinator with two workers, and fault windows of its own, for the services that run on it")
	flags.StringVar(&o.dsn, "dsn", "",
		"PostgreSQL server to run on instead of a private one: `URL` of a role with CREATEDB and CREATEROLE")
	flags.StringVar(&o.Out, "out", filepath.Join(".tmp", "proof"),
		"folder for proof.json, proof.html and pictures of violations; empty for none")
	return cmd
}

// schedule checks the options and makes the windows.
func (o *proveOptions) schedule() (err error) {
	if o.Replicas < 2 || o.Replicas > 10 || o.Clients < 1 || o.Clients > 64 {
		return usageError{"prove: --replicas must be between 2 and 10, --clients between 1 and 64"}
	}
	if err := o.checkCluster(); err != nil {
		return err
	}

	parts := prove.Parts(o.faults)
	length := o.length / time.Duration(max(parts, 1))
	if length < shortestWindow {
		return usageError{fmt.Sprintf("prove: %s for %d windows are less than %s for each", o.length, parts, shortestWindow)}
	}

	if o.Windows, err = prove.Schedule(o.Seed, length, o.faults); err != nil {
		return usageError{"prove: " + err.Error()}
	}
	o.Windows = slices.DeleteFunc(o.Windows, func(w prove.Window) bool {
		return w.Needs() != "" && !slices.ContainsFunc(o.chosen, func(s targets.Service) bool { return s.Name == w.Needs() })
	})

	if len(o.Windows) == 0 {
		return usageError{"prove: no chosen service takes part in that, so there is nothing to run"}
	}
	if o.dsn != "" {
		o.Windows = slices.DeleteFunc(o.Windows, prove.Window.NeedsOwner)
	}

	if len(o.Windows) == 0 {
		return usageError{"prove: only the owner of the server can inject that, so there is nothing to run with --dsn"}
	}
	return nil
}

// checkCluster checks that the windows belong to the cluster, and names all of them where none is named.
func (o *proveOptions) checkCluster() error {
	onCitus := o.cluster == string(sqldb.ClusterCitus)
	for _, name := range o.faults {
		if own := slices.Contains(prove.OnCitus(), name); own != onCitus && slices.Contains(prove.AllNames(), name) {
			return usageError{fmt.Sprintf("prove: with --cluster citus there are the windows %s, and only with it; not %s",
				strings.Join(prove.OnCitus(), ", "), name)}
		}
	}

	switch {
	case o.cluster == "":
		return nil
	case !onCitus:
		return usageError{fmt.Sprintf("prove: there is no cluster %q; there is citus", o.cluster)}
	case o.dsn != "":
		return usageError{"prove: --cluster starts servers of its own, and --dsn names one"}
	case !slices.ContainsFunc(o.chosen, func(s targets.Service) bool { return prove.RunsOnCitus(s.Name) }):
		return usageError{"prove: no chosen service runs on Citus"}
	case len(o.faults) == 0:
		o.faults = prove.OnCitus()
	}
	return nil
}

func runProve(ctx context.Context, p process, o proveOptions) error {
	if err := o.schedule(); err != nil {
		return err
	}
	run := proof{process: p, proveOptions: o, maria: o.dsn == ""}
	if err := run.openRemote(ctx); err != nil {
		return err
	}
	say(p.stdout, "Seed %d, %d replicas and %d clients of each service, %d fault windows",
		o.Seed, o.Replicas, o.Clients, len(o.Windows))
	for _, w := range o.Windows {
		say(p.stdout, "  %s", w)
	}
	report, err := run.groups(ctx)
	if report == nil || err != nil && ctx.Err() != nil {
		return err
	}
	return conclude(report, err, o.Out, p)
}

// groups runs the windows, windows that need their own servers after the others. The report is nil when nothing could
// start.
func (v *proof) groups(ctx context.Context) (whole *prove.Report, err error) {
	for _, windows := range prove.Groups(v.Windows) {
		part := *v
		part.Windows = windows
		report, err := part.run(ctx)
		if errors.Is(err, patroni.ErrNotInstalled) || errors.Is(err, localcitus.ErrNotInstalled) {
			say(v.stdout, "Windows from %s on are skipped: %v.", windows[0].Name, err)
			continue
		}

		switch {
		case whole == nil:
			whole = report
		case report == nil:
			whole.Broken = err.Error()
		default:
			whole.Add(report)
		}
		if err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// conclude saves the report and prints the results. The error of a run that left something behind comes last.
func conclude(report *prove.Report, err error, out string, p process) error {
	if out != "" {
		err = errors.Join(saveProof(report, out), err)
		say(p.stdout, "\nReports: %s and %s", filepath.Join(out, "proof.json"), filepath.Join(out, "proof.html"))
	}
	return errors.Join(summarize(report, p), err)
}

// summarize prints what holds and what does not. A promise that was broken is a violation; a run that failed without
// that is an ordinary error.
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

// violation reports that a promise was broken. It has its own exit status.
type violation struct{ seed uint64 }

func (v violation) Error() string { return fmt.Sprintf("prove: not proven; seed %d", v.seed) }

// saveProof writes the report as JSON and as a page, over those of an earlier run.
func saveProof(report *prove.Report, dir string) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("prove: encode the proof: %w", err)
	}
	var page strings.Builder
	if err := report.WritePage(&page); err != nil {
		return err
	}
	err = errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "proof.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "proof.html"), []byte(page.String()), 0o644),
	)
	if err != nil {
		return fmt.Errorf("prove: save the proof: %w", err)
	}
	return nil
}
