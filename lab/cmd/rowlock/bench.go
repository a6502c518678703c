package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

func newBench(p process) *cobra.Command {
	o, page := bench.Options{Runs: 3}, ""
	cmd := &cobra.Command{
		Use: "bench [SERVICE]", Short: "Measure a service beside bare pgbench", ValidArgs: targets.Names(),
		Long: "Measure a service beside bare pgbench, " + targets.Counts + " where none is named.\n" +
			"It starts a private PostgreSQL server on a disk and replicas of the service, and prints the report.",
		Example: "  rowlock bench counts --runs 5 --duration 20s",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Service = targets.Counts
			if len(args) > 0 {
				o.Service, args = args[0], args[1:]
			}
			if err := noWords(cmd, args); err != nil {
				return err
			}
			if page != "" && (o.Quick || len(o.Only) > 0) {
				return usageError{"bench: --publish is for whole measurements, without --quick and --only"}
			}
			if err := o.Validate(); err != nil {
				return usageError{fmt.Sprintf("bench: %v", err)}
			}
			return runBench(cmd.Context(), o, page, p)
		},
	}

	flags := cmd.Flags()
	flags.IntVar(&o.Runs, "runs", o.Runs, "runs of each scenario; the report gives medians")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second,
		"length of a run; of an open loop three times that, of the sweep 2s at most")
	flags.StringVar(&page, "publish", "", "page to put the tables and the plot into: docs/performance.md")
	flags.StringVar(&o.Peer, "peer", "", "of iidy: program of the older IIDY (github.com/manniwood/iidy) to compare with")
	flags.StringSliceVar(&o.Only, "only", nil,
		"scenarios to run instead of all, such as pgbench-uniform,uniform; sweep runs the whole sweep; "+
			"bloat, of counts, runs only when it is named")
	flags.BoolVar(&o.Quick, "quick", false, "a smoke test of seconds: one run of a second each, and no bar is judged")
	return cmd
}

// runBench measures a service, prints the report and puts it into the page, unless that is empty. A missed bar is
// printed and is no error; a state that does not add up is one.
func runBench(ctx context.Context, o bench.Options, page string, p process) error {
	p, line := p.withProgress()
	defer line.stop()
	begun := time.Now()
	line.show(func() string { return since(begun).String() })

	rounds := io.Discard
	if p.terminal != nil {
		rounds = p.stderr
	}
	report, err := bench.Run(ctx, p.hurry, o, bench.Host{
		Environ: p.environ, Progress: rounds,
		Line: func(replica string, line []byte) {
			// Expected here: the bench is the superuser of its servers.
			if text, ok := readable(line); ok && !strings.Contains(text, "unsafe database setting") {
				say(p.stderr, "%s | %s", replica, text)
			}
		},
	})
	if report == nil || err != nil && ctx.Err() != nil {
		return err
	}

	say(p.stdout, "%s", report.Markdown(""))
	if page != "" && err == nil {
		err = report.Publish(page)
	}
	return err
}
