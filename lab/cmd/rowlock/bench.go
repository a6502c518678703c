package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localpg"
)

// benchStopTimeout bounds the end of the replicas and the server when a bench is over or was interrupted.
const benchStopTimeout = 30 * time.Second

// defaultBench is the service that is measured when none is named.
const defaultBench = "counts"

// benches is the table of the services that there is a bench of.
func benches() map[string]struct {
	options func() bench.Options
	measure func(context.Context, bench.System, bench.Options, io.Writer) (*bench.Report, error)
} {
	return map[string]struct {
		options func() bench.Options
		measure func(context.Context, bench.System, bench.Options, io.Writer) (*bench.Report, error)
	}{
		"counts":        {bench.Defaults, bench.Counts},
		"iidy":          {bench.IidyDefaults, bench.Iidy},
		"payments":      {bench.PaymentsDefaults, bench.Payments},
		services.Events: {bench.EventsDefaults, bench.Events},
		"pyggpot":       {bench.PyggpotDefaults, bench.Pyggpot},
	}
}

// benchFlags is the command line of `rowlock bench`.
type benchFlags struct {
	service string
	out     string
	quick   bool
	options bench.Options
}

// newBench returns the command with one command below it for each service, whose defaults differ.
func newBench(p process) *cobra.Command {
	cmd := newBenchOf(p, defaultBench)
	cmd.Use, cmd.Short = "bench [SERVICE]", "Measure a service beside bare pgbench"
	cmd.Long = "Measure a service beside bare pgbench, " + defaultBench + " where none is named.\n" +
		"It starts a private PostgreSQL server on a disk and replicas of the service, and prints and saves the report."
	names := slices.Sorted(maps.Keys(benches()))
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usageError{fmt.Sprintf("bench: there is no bench of %q; there is one of %s", args[0], strings.Join(names, ", "))}
	}
	for _, name := range names {
		cmd.AddCommand(newBenchOf(p, name))
	}
	return cmd
}

// newBenchOf returns the command that measures one service.
func newBenchOf(p process, service string) *cobra.Command {
	f := benchFlags{service: service, options: benches()[service].options()}
	cmd := &cobra.Command{
		Use: service, Short: "Measure " + service, Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			return runBench(cmd.Context(), f, p)
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// define defines the flags of a bench, with the defaults of its service.
func (f *benchFlags) define(flags *pflag.FlagSet) {
	o := &f.options
	flags.IntVar(&o.Runs, "runs", o.Runs, "runs of each scenario; the report gives medians")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "measured length of a saturated run")
	flags.DurationVar(&o.OpenDuration, "open-duration", o.OpenDuration, "measured length of an open-loop run")
	flags.DurationVar(&o.Warmup, "warmup", o.Warmup, "length of the warm-up before each run")
	flags.Float64Var(&o.Rate, "rate", o.Rate, "requests per second of the open loop")
	flags.IntVar(&o.Connections, "connections", o.Connections, "connections of the generator over all replicas")
	flags.IntVar(&o.Replicas, "replicas", o.Replicas, "replicas that share the load")
	flags.IntVar(&o.Items, "items", o.Items, "counters, and rows of pgbench's table")
	flags.StringVar(&f.out, "out", filepath.Join(".tmp", "bench"), "folder for the JSON and SVG reports; empty for none")
	flags.BoolVar(&o.Trace, "trace", false, "of counts: measure what tracing costs, off against 1 % and 100 %")
	flags.StringSliceVar(&o.Only, "only", nil, "comma-separated scenarios to run instead of all, such as pgbench-uniform,uniform")
	flags.BoolVar(&f.quick, "quick", false, "a smoke test of seconds: prints figures and judges none")
}

// validate checks the flags.
func (f *benchFlags) validate() error {
	if f.quick {
		f.options = f.options.Quick()
	}
	if err := f.options.Validate(); err != nil {
		return usageError{fmt.Sprintf("bench: %v", err)}
	}
	return nil
}

// runBench measures a service, and prints and saves the report. A missed bar is printed and is no error; counters that do
// not add up are one.
func runBench(ctx context.Context, flags benchFlags, p process) error {
	var report *bench.Report
	err := withBenchSystem(ctx, flags, p, func(system bench.System) error {
		var err error
		report, err = benches()[flags.service].measure(ctx, system, flags.options, p.stderr)
		return err
	})
	if report != nil && ctx.Err() == nil {
		err = errors.Join(err, report.WriteTable(p.stdout), saveReport(report, flags.out, p.stdout))
	}
	return err
}

// withBenchSystem runs measure while a private server and the replicas are up. DATABASE_URL is not used: a bench fills what it gets.
func withBenchSystem(ctx context.Context, flags benchFlags, p process, measure func(bench.System) error) (err error) {
	chosen, err := choose([]string{flags.service})
	if err != nil {
		return err
	}

	path, err := local.Binary(ctx, flags.service, p.stderr)
	if err != nil {
		return err
	}

	server, err := startBenchServer(ctx, p)
	if err != nil {
		return err
	}

	defer func() {
		stopCtx, cancel := benchStopContext(ctx, p)
		defer cancel()

		err = errors.Join(err, server.Stop(stopCtx), localpg.Remove(context.WithoutCancel(ctx), server.Dir()))
	}()

	system := bench.System{DatabaseURL: server.URL(database), DatabasePID: server.PID()}

	// Without pgbench the bench still measures the service, and says that it has no baseline.
	if system.PGBench, err = pgbench.Find(server.BinDir()); err != nil {
		say(p.stderr, "%v", err)
	}

	if flags.service == services.Events {
		lab := &eventsLab{process: p, binary: path, postgres: server}
		system.Events = lab

		defer func() {
			stopCtx, cancel := benchStopContext(ctx, p)
			defer cancel()

			err = errors.Join(err, lab.close(stopCtx))
		}()
	}

	service := &running{service: chosen[0], binary: path}

	set, err := startBenchReplicas(ctx, flags, p, service, server)
	if err != nil {
		return err
	}

	defer func() {
		stopCtx, cancel := benchStopContext(ctx, p)
		defer cancel()

		err = errors.Join(err, set.Stop(stopCtx))
	}()

	// The load waits for the answers to what it has sent, or for the end of those who owe them.
	measured := killInHurry(ctx, p, set)
	defer measured()

	own := fleetOf(set)
	system.Replicas, system.PIDs = own.Replicas, own.PIDs

	if flags.options.Trace {
		return withTracing(ctx, flags, p, service, system, measure)
	}

	return measure(system)
}

// fleetOf are the replicas of a set as a bench wants them.
func fleetOf(set *local.Set) (f bench.Fleet) {
	for _, r := range set.Replicas() {
		status := r.Status()
		f.Replicas = append(f.Replicas, status.API)
		f.PIDs = append(f.PIDs, status.PID)
	}

	return f
}

// killInHurry kills the replicas at the second Ctrl-C, until the function that it returns is called.
func killInHurry(ctx context.Context, p process, set *local.Set) (done func()) {
	hurry, cancel := hurried(context.WithoutCancel(ctx), p.hurry)
	unused := context.AfterFunc(hurry, func() { _ = set.Stop(hurry) }) // that they were killed is what was asked for

	return func() {
		unused()
		cancel()
	}
}

func benchStopContext(ctx context.Context, p process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchStopTimeout)
	ctx, cancelHurry := hurried(ctx, p.hurry)

	return ctx, func() { cancelHurry(); cancel() }
}

// startBenchReplicas starts the replicas as `up` does, with the role that can do no more than change rows.
func startBenchReplicas(
	ctx context.Context, flags benchFlags, p process, service *running, server *localpg.Server,
) (*local.Set, error) {
	service.system = &system{process: p, console: &console{out: p.stderr}, server: server}

	if err := service.schemaPart().Start(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}

	return startFleet(ctx, flags, service, flags.service, service.environ)
}

func startFleet(
	ctx context.Context, flags benchFlags, service *running, name string, environ map[string]string,
) (*local.Set, error) {
	return local.Start(ctx, local.Spec{
		Service: name, Path: service.binary, Environ: environ, Notify: service.system.notify,
		Line: func(replica string, line []byte) {
			if text, ok := readable(line, false); ok {
				service.system.console.say("%s | %s", replica, text)
			}
		},
	}, flags.options.ReplicasNeeded())
}

// benchFolder makes a folder for a server on a disk.
func benchFolder() (string, error) {
	parent := "/var/tmp"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = os.TempDir()
	}

	dir, err := os.MkdirTemp(parent, "rowlock-bench-")
	if err != nil {
		return "", fmt.Errorf("bench: make a folder for the database: %w", err)
	}

	// When root runs this, the server runs as somebody else, who must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", errors.Join(fmt.Errorf("bench: open the folder for the database: %w", err), os.RemoveAll(dir))
	}

	return dir, nil
}

// startBenchServer starts a server with PostgreSQL's own defaults on a disk: /tmp lies in memory on many systems, where a commit costs
// nothing and every figure is too good.
func startBenchServer(ctx context.Context, p process) (*localpg.Server, error) {
	dir, err := benchFolder()
	if err != nil {
		return nil, err
	}

	server, err := localpg.Start(ctx, localpg.Options{Dir: dir, Temporary: true, Environ: p.environ, Progress: p.stderr})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), os.RemoveAll(dir))
	}

	if err := local.Database(ctx, server.URL("postgres"), database); err != nil {
		stopCtx, cancel := benchStopContext(ctx, p)
		defer cancel()

		return nil, errors.Join(fmt.Errorf("bench: %w", err), server.Stop(stopCtx), localpg.Remove(stopCtx, server.Dir()))
	}

	return server, nil
}

// saveReport writes the report's JSON and SVG forms, named after the service, over those of the last time.
func saveReport(report *bench.Report, dir string, stdout io.Writer) error {
	if dir == "" {
		return nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("bench: make the folder for the reports: %w", err)
	}

	base := filepath.Join(dir, report.Service)

	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: encode the report: %w", err)
	}

	if err := os.WriteFile(base+".json", append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("bench: save the report: %w", err)
	}

	var plot strings.Builder
	if err := report.WriteSVG(&plot); err != nil {
		return err
	}

	if err := os.WriteFile(base+".svg", []byte(plot.String()), 0o644); err != nil {
		return fmt.Errorf("bench: save the plot: %w", err)
	}

	_, err = fmt.Fprintf(stdout, "\nReports: %s.json and %s.svg\n", base, base)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}

	return nil
}
