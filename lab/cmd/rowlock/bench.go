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
	"github.com/rowlock/rowlock/lab/internal/targets"
)

func newBench(p process) *cobra.Command {
	o, to := bench.Options{Runs: 3}, benchOutput{folder: filepath.Join(".tmp", "bench")}
	cmd := &cobra.Command{
		Use: "bench [SERVICE]", Short: "Measure a service beside bare pgbench", ValidArgs: targets.Names(),
		Long: "Measure a service beside bare pgbench, " + targets.Counts + " where none is named.\n" +
			"It starts a private PostgreSQL server on a disk and replicas of the service, and prints and saves the report.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Service = targets.Counts
			if len(args) > 0 {
				o.Service, args = args[0], args[1:]
			}
			if err := noWords(cmd, args); err != nil {
				return err
			}
			if to.page != "" && (o.Quick || o.Trace || o.Bloat > 0 || len(o.Only) > 0) {
				return usageError{"bench: --publish is for whole measurements, without --quick, --trace, --bloat and --only"}
			}
			if err := o.Validate(); err != nil {
				return usageError{fmt.Sprintf("bench: %v", err)}
			}
			return runBench(cmd.Context(), o, to, p)
		},
	}

	flags := cmd.Flags()
	flags.IntVar(&o.Runs, "runs", o.Runs, "runs of each scenario; the report gives medians")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second,
		"length of a run; of an open loop three times that, of the sweep 2s at most")
	flags.StringVar(&to.folder, "out", to.folder, "folder for the JSON report; empty for none")
	flags.StringVar(&to.page, "publish", "", "page to put the tables and the plot into: docs/performance.md")
	flags.StringVar(&o.Peer, "peer", "", "of iidy: program of the older IIDY (github.com/manniwood/iidy) to compare with")
	flags.BoolVar(&o.Trace, "trace", false, "of counts: measure what tracing costs, off against 1 % and 100 %")
	flags.DurationVar(&o.Bloat, "bloat", 0, "of counts: watch the tables of keys, which live for 1m, for so long: 10m")
	flags.StringSliceVar(&o.Only, "only", nil,
		"scenarios to run instead of all, such as pgbench-uniform,uniform; sweep for those of the sweep")
	flags.BoolVar(&o.Quick, "quick", false, "a smoke test of seconds: one run of a second each, and no bar is judged")
	return cmd
}

// benchOutput says where a report goes to.
type benchOutput struct {
	folder string // of the JSON report; empty for none
	page   string // that has the tables; empty for none
}

// runBench measures a service, and prints and saves the report. A missed bar is printed and is no error; a state that
// does not add up is one.
func runBench(ctx context.Context, o bench.Options, to benchOutput, p process) error {
	out := &console{out: p.stderr}
	report, err := bench.Run(ctx, p.hurry, o, bench.Host{
		Environ: p.environ, Progress: out,
		Line: func(replica string, line []byte) {
			// Expected here: the bench is the superuser of its servers.
			if text, ok := readable(line); ok && !strings.Contains(text, "unsafe database setting") {
				out.say("%s | %s", replica, text)
			}
		},
	})
	if report == nil || err != nil && ctx.Err() != nil {
		return err
	}

	say(p.stdout, "%s", report.Markdown(""))
	if to.folder != "" {
		path, saveErr := report.Save(to.folder)
		if saveErr == nil {
			say(p.stdout, "Report: %s", path)
		}
		err = errors.Join(err, saveErr)
	}
	if to.page != "" && err == nil {
		err = report.Publish(to.page)
	}
	return err
}
