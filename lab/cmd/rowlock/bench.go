package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// benchFlags is the command line of `rowlock bench`.
type benchFlags struct {
	out     string
	quick   bool
	options bench.Options
}

// newBench returns the command with one command below it for each service, whose defaults differ.
func newBench(p process) *cobra.Command {
	cmd := newBenchOf(p, services.Counts)
	cmd.Use, cmd.Short = "bench [SERVICE]", "Measure a service beside bare pgbench"
	cmd.Long = "Measure a service beside bare pgbench, " + services.Counts + " where none is named.\n" +
		"It starts a private PostgreSQL server on a disk and replicas of the service, and prints and saves the report."
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		names := strings.Join(services.Names(), ", ")
		return usageError{fmt.Sprintf("bench: there is no bench of %q; there is one of %s", args[0], names)}
	}
	for _, name := range services.Names() {
		cmd.AddCommand(newBenchOf(p, name))
	}
	return cmd
}

// newBenchOf returns the command that measures one service.
func newBenchOf(p process, service string) *cobra.Command {
	f := benchFlags{options: bench.Defaults(service)}
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
	flags.DurationVar(&o.Duration, "duration", o.Duration, "measured length of a closed-loop run")
	flags.DurationVar(&o.OpenDuration, "open-duration", o.OpenDuration, "measured length of an open-loop run")
	flags.DurationVar(&o.Warmup, "warmup", o.Warmup, "length of the warm-up before each run")
	flags.Float64Var(&o.Rate, "rate", o.Rate, "requests per second of the open loop")
	flags.IntVar(&o.Connections, "connections", o.Connections, "connections of the generator over all replicas")
	flags.IntVar(&o.Replicas, "replicas", o.Replicas, "replicas that share the load")
	flags.IntVar(&o.Items, "items", o.Items, "counters, and rows of pgbench's table")
	flags.StringVar(&f.out, "out", filepath.Join(".tmp", "bench"), "folder for the JSON report; empty for none")
	flags.BoolVar(&o.Trace, "trace", false, "of counts: measure what tracing costs, off against 1 % and 100 %")
	flags.StringSliceVar(&o.Only, "only", nil, "scenarios to run instead of all, such as pgbench-uniform,uniform")
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

// runBench measures a service, and prints and saves the report. A missed bar is printed and is no error; a state that
// does not add up is one.
func runBench(ctx context.Context, f benchFlags, p process) error {
	out := &console{out: p.stderr}
	hurry, cancel := hurried(context.WithoutCancel(ctx), p.hurry)
	defer cancel()
	report, err := bench.Run(ctx, hurry, f.options, bench.Host{
		Environ: p.environ, Progress: out,
		Line: func(replica string, line []byte) {
			// That the bench is the superuser of its own servers is no news.
			if text, ok := readable(line, false); ok && !strings.Contains(text, "unsafe database setting") {
				out.say("%s | %s", replica, text)
			}
		},
	})
	if report == nil || ctx.Err() != nil {
		return err
	}
	err = errors.Join(err, report.WriteTable(p.stdout))
	if f.out == "" {
		return err
	}
	path, saveErr := report.Save(f.out)
	if saveErr == nil {
		say(p.stdout, "\nReport: %s", path)
	}
	return errors.Join(err, saveErr)
}
