package bench

import (
	"fmt"
	"io"
	"maps"
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
	var text strings.Builder

	r.head(&text)

	// All cells are aligned right but those of the first column, which are padded here: tabwriter has one alignment for all.
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := len("scenario (medians)")

	for _, s := range r.Scenarios {
		width = max(width, len(s.Title))
	}

	row := func(first string, cells ...string) {
		_, _ = fmt.Fprintf(table, "%-*s\t%s\t\n", width, first, strings.Join(cells, "\t")) // a strings.Builder does not fail
	}

	over := "x pgbench"
	if r.Options.Trace {
		over = "x off"
	}

	row("scenario (medians)", "per second", "spread", over, "p50 ms", "p99 ms", "p99.9 ms", "max ms", "errors",
		"CPU client", "replicas", "PostgreSQL")

	for i := range r.Scenarios {
		if s := &r.Scenarios[i]; len(s.Runs) > 0 {
			row(s.Title, r.cells(s)...)
		}
	}

	_ = table.Flush() // into a strings.Builder

	r.remarks(&text)
	r.verdicts(&text)

	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}

	return nil
}

func (r *Report) head(w io.Writer) {
	settings := make([]string, 0, len(r.Machine.Settings))
	for _, name := range slices.Sorted(maps.Keys(r.Machine.Settings)) {
		settings = append(settings, name+"="+r.Machine.Settings[name])
	}

	o := r.Options

	_, _ = fmt.Fprintf(w, "\n%s %s  %s\n", r.Service, r.Version, r.Started.Format(time.RFC3339))
	_, _ = fmt.Fprintf(w, "%s, %d cores, %s, %s; client, replicas and database share it\n",
		r.Machine.CPU, r.Machine.Cores, r.Machine.Platform, r.Machine.Go)
	_, _ = fmt.Fprintf(w, "PostgreSQL %s: %s\n", r.Machine.PostgreSQL, strings.Join(settings, ", "))
	_, _ = fmt.Fprintf(w, "%d connections, %d items, %d x %v after %v of warm-up; open loop %v at %s/s; pgbench -M prepared -c 32 -j 2, "+
		"its table with the same fillfactor (%d) as the service's\n\n",
		o.Connections, o.Items, o.Runs, o.Duration, o.Warmup, o.OpenDuration, thousands(o.Rate), pgbench.FillFactor)
}

func (r *Report) cells(s *Series) []string {
	m := s.Median
	least := slices.MinFunc(s.Runs, func(a, b Run) int { return compare(a.PerSecond, b.PerSecond) }).PerSecond
	most := slices.MaxFunc(s.Runs, func(a, b Run) int { return compare(a.PerSecond, b.PerSecond) }).PerSecond
	spread, ratio := "-", "-"

	if len(s.Runs) > 1 && m.PerSecond > 0 {
		spread = fmt.Sprintf("±%.0f %%", 50*(most-least)/m.PerSecond)
	}

	if x := r.ratio(s); x > 0 {
		ratio = fmt.Sprintf("%.2f", x)
	}

	return []string{
		thousands(m.PerSecond), spread, ratio, plainMS(m.Latency.P50), plainMS(m.Latency.P99), plainMS(m.Latency.P999),
		plainMS(m.Latency.Max), strconv.FormatInt(m.Errors, 10), micros(m.CPU.Client), micros(m.CPU.Replicas), micros(m.CPU.PostgreSQL),
	}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// remarks explains what the table cannot.
func (r *Report) remarks(w io.Writer) {
	_, _ = fmt.Fprintln(w, "\nCPU is per request. Saturated latencies are queueing at full load; those of the open loop count from when a "+
		"request was due.")

	if open := r.find(scenarioOpen); open != nil {
		for i, run := range open.Runs {
			if run.Lateness != nil {
				_, _ = fmt.Fprintf(w, "open loop, run %d: sent late by p50 %s, p99 %s (connections busy or generator late; part of the latency); %s\n",
					i+1, milliseconds(run.Lateness.P50), milliseconds(run.Lateness.P99), memoryOf(run.Memory))
			}
		}
	}

	if most := r.busiest(); most > tolerableOthers {
		_, _ = fmt.Fprintf(w, "Other programs used up to %.0f %% of this machine's CPU in a run: on a quiet one the figures are higher.\n",
			100*most)
	}

	if r.Options.Trace {
		r.spanRemarks(w)
	}

	var checked, exact, unknown int64

	for _, s := range r.Scenarios {
		for _, run := range s.Runs {
			if run.Sum == nil {
				continue
			}

			checked++
			unknown += run.Sum.Unknown

			if run.Sum.Holds() {
				exact++
			}
		}
	}

	_, _ = fmt.Fprintf(w, "Sum check: in %d of %d runs the database gained exactly what was acknowledged", exact, checked)
	if unknown > 0 {
		_, _ = fmt.Fprintf(w, " (and at most the %d whose outcome the client does not know)", unknown)
	}

	_, _ = fmt.Fprint(w, ".\n")
}

// spanRemarks tells what the receiver got, some of it seconds after the run that it is from: exporters wait. A busy replica drops what
// its exporter's queue (OTEL_BSP_MAX_QUEUE_SIZE) cannot take.
func (r *Report) spanRemarks(w io.Writer) {
	_, _ = fmt.Fprintln(w, "Spans may come up to five seconds late, and be counted with the next run.")

	for _, s := range r.Scenarios {
		for i, run := range s.Runs {
			_, _ = fmt.Fprintf(w, "%s, run %d: %s spans came to the receiver\n", s.Title, i+1, thousands(float64(run.Spans)))
		}
	}
}

// tolerableOthers is the share of the machine's CPU that the kernel's own threads and the clock ticks' coarseness may explain.
const tolerableOthers = 0.05

// busiest is the largest share of the CPU that others had in any run.
func (r *Report) busiest() float64 {
	var most float64

	for _, s := range r.Scenarios {
		for _, run := range s.Runs {
			most = max(most, run.Others)
		}
	}

	return most
}

func memoryOf(samples []MemorySample) string {
	if len(samples) == 0 {
		return "memory not measured"
	}

	at := func(i int) string {
		cells := make([]string, 0, len(samples[i].RSS))
		for _, rss := range samples[i].RSS {
			cells = append(cells, fmt.Sprintf("%.1f", float64(rss)/(1<<20)))
		}

		return strings.Join(cells, " + ")
	}

	return fmt.Sprintf("memory of the replicas %s, %s, %s MiB at start, middle and end", at(0), at(len(samples)/2), at(len(samples)-1))
}

func (r *Report) verdicts(w io.Writer) {
	_, _ = fmt.Fprintln(w)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, bar := range r.Bars {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", strings.ToUpper(string(bar.Verdict)), bar.Name, bar.Got, bar.Want)
	}

	_ = table.Flush() // into a strings.Builder
}

// remarks of one run for the progress line.
func remarks(run Run) string {
	parts := make([]string, 0, 5)

	if run.Latency.P99 > 0 {
		parts = append(parts, "p99 "+milliseconds(run.Latency.P99))
	}

	if run.CPU.Client > 0 {
		parts = append(parts, "client CPU "+micros(run.CPU.Client))
	}

	if run.Others > tolerableOthers {
		parts = append(parts, fmt.Sprintf("other programs %.0f %%", 100*run.Others))
	}

	if run.Errors > 0 {
		parts = append(parts, fmt.Sprintf("%d errors %v %v", run.Errors, run.Statuses, run.Failures))
	}

	if run.Sum != nil {
		if run.Sum.Holds() {
			parts = append(parts, "sum exact")
		} else {
			parts = append(parts, "SUM WRONG")
		}
	}

	return strings.Join(parts, ", ")
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	digits := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}

	return digits
}

func milliseconds(d time.Duration) string { return plainMS(d) + " ms" }

func plainMS(d time.Duration) string {
	if d == 0 {
		return "-"
	}

	ms := float64(d) / float64(time.Millisecond)

	return strconv.FormatFloat(ms, 'f', max(0, 2-int(math.Floor(math.Log10(max(1, ms))))), 64)
}

func micros(d time.Duration) string {
	if d == 0 {
		return "-"
	}

	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}
