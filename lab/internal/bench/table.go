package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable prints the report for a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	o := r.Options
	// All cells are aligned right but the first ones, which are padded here: tabwriter has one alignment. It returns the
	// errors of all writes in the end.
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, `
%s %s  %s
%s; client, replicas and database share it
%d x %v after %v of warm-up; pgbench -M prepared -c %d -j %d

`, o.Service, r.Version, r.Started.Format(time.RFC3339), r.Machine, o.Runs, o.Duration, o.warmup(), pgbenchClients,
		pgbenchThreads)
	r.writeFigures(table)
	_, _ = fmt.Fprint(table, `
Figures are medians. CPU is per request. Latencies of a closed loop are queueing at full load; those of the open loop
count from when a request was due. Lost changes were acknowledged and are not in the database.

`)
	width := 0
	for _, b := range r.Bars {
		width = max(width, len(b.Scenario+": "+b.Figure))
	}
	for _, b := range r.Bars {
		outcome, bar := strings.ToUpper(b.Outcome), b.Scenario+": "+b.Figure
		_, _ = fmt.Fprintf(table, "%-12s\t%-*s\t%s\t%s\t\n", outcome, width, bar, b.Got, b.Want)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

// writeFigures prints a line for each scenario and a column for each figure that was measured.
func (r *Report) writeFigures(table io.Writer) {
	measured := slices.DeleteFunc(columns(), func(figure string) bool {
		return !slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { _, ok := s.Median[figure]; return ok })
	})
	width := 0
	for _, s := range r.Scenarios {
		width = max(width, len(s.Title))
	}
	_, _ = fmt.Fprintf(table, "%-*s\t%s\t\n", width, "scenario", strings.Join(measured, "\t"))
	for _, s := range r.Scenarios {
		if len(s.Runs) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(table, "%-*s\t", width, s.Title)
		for _, figure := range measured {
			cell := "-"
			if v, ok := s.Median[figure]; ok {
				cell = format(v)
			}
			_, _ = fmt.Fprintf(table, "%s\t", cell)
		}
		_, _ = fmt.Fprintln(table)
	}
}
