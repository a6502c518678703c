package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/services"
)

func newBench(p process) *cobra.Command {
	out, o := filepath.Join(".tmp", "bench"), bench.Options{Runs: 3}
	cmd := &cobra.Command{
		Use: "bench [SERVICE]", Short: "Measure a service beside bare pgbench", ValidArgs: services.Names(),
		Long: "Measure a service beside bare pgbench, " + services.Counts + " where none is named.\n" +
			"It starts a private PostgreSQL server on a disk and replicas of the service, and prints and saves the report.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Service = services.Counts; len(args) > 0 {
				o.Service, args = args[0], args[1:]
			}
			if err := noWords(cmd, args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return usageError{fmt.Sprintf("bench: %v", err)}
			}
			return runBench(cmd.Context(), o, out, p)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Runs, "runs", o.Runs, "runs of each scenario; the report gives medians")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "length of a run; of an open loop three times that")
	flags.StringVar(&out, "out", out, "folder for the JSON report; empty for none")
	flags.BoolVar(&o.Trace, "trace", false, "of counts: measure what tracing costs, off against 1 % and 100 %")
	flags.StringSliceVar(&o.Only, "only", nil, "scenarios to run instead of all, such as pgbench-uniform,uniform")
	flags.BoolVar(&o.Quick, "quick", false, "a smoke test of seconds: one run of a second each, and no bar is judged")
	return cmd
}

// runBench measures a service, and prints and saves the report. A missed bar is printed and is no error; a state that
// does not add up is one.
func runBench(ctx context.Context, o bench.Options, folder string, p process) error {
	out := &console{out: p.stderr}
	report, err := bench.Run(ctx, p.hurry, o, bench.Host{
		Environ: p.environ, Progress: out,
		Line: func(replica string, line []byte) {
			// That the bench is the superuser of its own servers is no news.
			if text, ok := readable(line, false); ok && !strings.Contains(text, "unsafe database setting") {
				out.say("%s | %s", replica, text)
			}
		},
	})
	if report == nil || err != nil && ctx.Err() != nil {
		return err
	}
	err = errors.Join(err, report.WriteTable(p.stdout))
	if folder == "" {
		return err
	}
	path, saveErr := report.Save(folder)
	if saveErr == nil {
		say(p.stdout, "\nReport: %s", path)
	}
	return errors.Join(err, saveErr)
}
