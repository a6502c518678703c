package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

// WriteTable prints the report for a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	// None of the writes below fails: they are to a strings.Builder.
	var text strings.Builder
	o, m := r.Options, r.Machine
	_, _ = fmt.Fprintf(&text, "\n%s %s  %s\n", o.Service, r.Version, r.Started.Format(time.RFC3339))
	_, _ = fmt.Fprintf(&text, "%s, %d cores, %s, %s; client, replicas and database share it\n", m.CPU, m.Cores, m.Platform, m.Go)
	_, _ = fmt.Fprintf(&text, "PostgreSQL %s: %s\n", m.PostgreSQL, m.Settings)
	_, _ = fmt.Fprintf(&text, "%d connections, %d items, %d x %v after %v of warm-up; open loop %v at %s/s; "+
		"pgbench -M prepared -c %d -j %d, its table with the same fillfactor (%d) as the service's\n\n", o.Connections,
		o.Items, o.Runs, o.Duration, o.Warmup, o.OpenDuration, thousands(o.Rate), pgbench.Clients, pgbench.Threads,
		pgbench.FillFactor)
	r.writeFigures(&text)
	_, _ = fmt.Fprintln(&text, "\nFigures are medians. CPU is per request. Latencies of a closed loop are queueing at full load; "+
		"those of the open loop count from when a request was due.")
	r.writeSums(&text)
	bars := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, b := range r.Bars {
		_, _ = fmt.Fprintf(bars, "%s\t%s\t%s\t%s\n", strings.ToUpper(string(b.Outcome)), b.Name, b.Got, b.Want)
	}
	_ = bars.Flush()
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

// columns returns the figures of the table with their headings.
func columns() [][2]string {
	return [][2]string{
		{"per second", perSecond}, {"spread", spread}, {"ratio", ratio}, {"p50 ms", p50}, {"p99 ms", p99}, {"p99.9 ms", p999},
		{"max ms", maxLatency}, {"late p99 ms", lateP99}, {"errors", errorCount}, {"CPU client µs", clientCPU},
		{"replicas µs", replicaCPU}, {"PostgreSQL µs", databaseCPU}, {"others %", othersCPU}, {"MiB", memory}, {"spans", spans},
	}
}

// writeFigures prints a line for each scenario and a column for each figure that was measured.
func (r *Report) writeFigures(w io.Writer) {
	measured := slices.DeleteFunc(columns(), func(column [2]string) bool {
		return !slices.ContainsFunc(r.Scenarios, func(s Series) bool { _, ok := s.Median[column[1]]; return ok })
	})
	width := 0
	for _, s := range r.Scenarios {
		width = max(width, len(s.Title))
	}
	// All cells are aligned right but those of the first column, which are padded here: tabwriter has one alignment.
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "%-*s\t", width, "scenario")
	for _, column := range measured {
		_, _ = fmt.Fprintf(table, "%s\t", column[0])
	}
	for _, s := range r.Scenarios {
		if len(s.Runs) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(table, "\n%-*s\t", width, s.Title)
		for _, column := range measured {
			cell := "-"
			if v, ok := s.Median[column[1]]; ok {
				cell = format(column[1], v)
			}
			_, _ = fmt.Fprintf(table, "%s\t", cell)
		}
	}
	_, _ = fmt.Fprintln(table)
	_ = table.Flush()
}

func (r *Report) writeSums(w io.Writer) {
	checked, exact, unknown := 0, 0, int64(0)
	for _, s := range r.Scenarios {
		for _, run := range s.Runs {
			if run.Sum != nil {
				checked++
				unknown += run.Sum.Unknown
				if run.Sum.Holds() {
					exact++
				}
			}
		}
	}
	_, _ = fmt.Fprintf(w, "Sum check: in %d of %d runs the database gained exactly what was acknowledged", exact, checked)
	if unknown > 0 {
		_, _ = fmt.Fprintf(w, " (and at most the %d whose outcome the client does not know)", unknown)
	}
	_, _ = fmt.Fprint(w, ".\n\n")
}

// remarks returns what the progress line says of one run.
func remarks(run Result) string {
	var parts []string
	add := func(ok bool, text string) {
		if ok {
			parts = append(parts, text)
		}
	}
	v := run.Figures
	add(v[p99] > 0, "p99 "+format(p99, v[p99])+" ms")
	add(v[clientCPU] > 0, "client CPU "+format(clientCPU, v[clientCPU])+" µs")
	add(v[othersCPU] > 5, "other programs "+format(othersCPU, v[othersCPU])+" %")
	add(v[errorCount] > 0, fmt.Sprintf("%.0f errors %v %v", v[errorCount], run.Statuses, run.Failures))
	add(run.Sum != nil && run.Sum.Holds(), "sum exact")
	add(run.Sum != nil && !run.Sum.Holds(), "SUM WRONG")
	return strings.Join(parts, ", ")
}

// units returns what is put behind figures that stand alone.
func units() map[string]string {
	return map[string]string{perSecond: "/s", p50: " ms", p99: " ms", memoryGrowth: " x"}
}

// format prints a figure without its unit.
func format(figure string, v float64) string {
	switch figure {
	case perSecond, spans:
		return thousands(v)
	case spread:
		return fmt.Sprintf("±%.0f %%", v)
	case ratio, memoryGrowth:
		return fmt.Sprintf("%.2f", v)
	case p50, p99, p999, maxLatency, lateP99: // three digits
		return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(max(1, v))))), 64)
	case clientCPU, replicaCPU, databaseCPU, memory:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
