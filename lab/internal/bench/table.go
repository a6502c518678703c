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
	_, _ = fmt.Fprintf(&text, "%s, %d cores, %s, %s; client, replicas and database share it\n",
		m.CPU, m.Cores, m.Platform, m.Go)
	_, _ = fmt.Fprintf(&text, "PostgreSQL %s: %s\n", m.PostgreSQL, m.Settings)
	_, _ = fmt.Fprintf(&text, "%d connections, %d items, %d x %v after %v of warm-up; open loop %v at %s/s; "+
		"pgbench -M prepared -c %d -j %d, its table with the same fillfactor (%d) as the service's\n\n", o.Connections,
		o.Items, o.Runs, o.Duration, o.Warmup, o.OpenDuration, format(perSecond, o.Rate), pgbench.Clients, pgbench.Threads,
		pgbench.FillFactor)
	r.writeFigures(&text)
	_, _ = fmt.Fprintln(&text, "\nFigures are medians. CPU is per request. Latencies of a closed loop are queueing "+
		"at full load; those of the open loop count from when a request was due.")
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

// column describes a figure.
type column struct {
	heading, unit string
	// digits is how many stand behind the point; below 0, how many count.
	digits int
}

// columns returns the figures in the order of the table, and what is not in the table without a heading.
func columns() ([]string, map[string]column) {
	order := []string{
		perSecond, spread, ratio, p50, p99, p999, maxLatency, lateP99, errorCount, clientCPU, replicaCPU, databaseCPU,
		othersCPU, memory, spans,
	}
	return order, map[string]column{
		perSecond: {"per second", "/s", 0}, spread: {"spread ± %", " %", 0}, ratio: {"ratio", " x", 2},
		p50: {"p50 ms", " ms", -3}, p99: {"p99 ms", " ms", -3}, p999: {"p99.9 ms", " ms", -3},
		maxLatency: {"max ms", " ms", -3}, lateP99: {"late p99 ms", " ms", -3}, errorCount: {"errors", "", 0},
		clientCPU:  {"CPU client µs", " µs", 1},
		replicaCPU: {"replicas µs", " µs", 1}, databaseCPU: {"PostgreSQL µs", " µs", 1}, othersCPU: {"others %", " %", 0},
		memory: {"MiB", " MiB", 1}, memoryGrowth: {"", " x", 2}, lostChanges: {"", "", 0}, spans: {"spans", "", 0},
	}
}

func describe(figure string) column {
	_, all := columns()
	return all[figure]
}

// writeFigures prints a line for each scenario and a column for each figure that was measured.
func (r *Report) writeFigures(w io.Writer) {
	order, all := columns()
	measured := slices.DeleteFunc(order, func(figure string) bool {
		return !slices.ContainsFunc(r.Scenarios, func(s Series) bool { _, ok := s.Median[figure]; return ok })
	})
	width := 0
	for _, s := range r.Scenarios {
		width = max(width, len(s.Title))
	}
	// All cells are aligned right but those of the first column, which are padded here: tabwriter has one alignment.
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "%-*s\t", width, "scenario")
	for _, figure := range measured {
		_, _ = fmt.Fprintf(table, "%s\t", all[figure].heading)
	}
	for _, s := range r.Scenarios {
		if len(s.Runs) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(table, "\n%-*s\t", width, s.Title)
		for _, figure := range measured {
			cell := "-"
			if v, ok := s.Median[figure]; ok {
				cell = format(figure, v)
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
	add := func(name, figure string, above float64) {
		if v := run.Figures[figure]; v > above {
			parts = append(parts, name+" "+format(figure, v)+describe(figure).unit)
		}
	}
	add("p99", p99, 0)
	add("client CPU", clientCPU, 0)
	add("other programs", othersCPU, 5)
	add(fmt.Sprintf("%v %v errors", run.Statuses, run.Failures), errorCount, 0)
	add("LOST", lostChanges, 0)
	if run.Sum != nil && run.Sum.Holds() {
		parts = append(parts, "sum exact")
	}
	return strings.Join(parts, ", ")
}

// format prints a figure without its unit.
func format(figure string, v float64) string {
	digits := describe(figure).digits
	if digits < 0 {
		digits = max(0, -digits-1-int(math.Floor(math.Log10(max(1, v)))))
	}
	return thousands(strconv.FormatFloat(v, 'f', digits, 64))
}

// thousands puts commas into a number.
func thousands(number string) string {
	whole, _, _ := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return number
}
