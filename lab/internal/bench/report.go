package bench

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// Report holds all that a bench measured. [Report.WriteTable] prints it for a terminal, [Report.Save] writes its JSON
// form, [Report.Publish] puts it into a page.
type Report struct {
	Started time.Time `json:"started"`
	// Version is that of this program, which `make bench` builds together with the service.
	Version string  `json:"version"`
	Machine string  `json:"machine"`
	Options Options `json:"options"`
	// Scenarios are in the order in which they ran within a round.
	Scenarios []Scenario `json:"scenarios"`
	Bars      []Bar      `json:"bars"`
}

// Scenario holds one way to load the system, and its runs.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Anchor says that it does not measure the service, but what the service is compared with.
	Anchor bool `json:"anchor,omitempty"`
	// Baseline names the scenario that this one is compared with; empty for none.
	Baseline string `json:"baseline,omitempty"`
	// Bars bounds medians: perSecond from below, others from above. With a baseline they are multiples of its median.
	Bars Figures `json:"bars,omitempty"`
	// Limits bounds medians as Bars does, but is never a multiple.
	Limits Figures `json:"limits,omitempty"`
	// Series and Callers say which point of the sweep this is; empty and 0 for what belongs to the table.
	Series  string   `json:"series,omitempty"`
	Callers int      `json:"callers,omitempty"`
	Runs    []Result `json:"runs"`
	// Median holds each figure's median over the runs, or the highest of those that count faults or are a maximum.
	Median Figures `json:"median"`

	// needs names the scenario that makes what this one works on; empty, or its own name, for none.
	needs string
	// run runs it one time. The error is errLeftOut, by errors.Is, where it cannot.
	run func(ctx context.Context) (Result, error)
}

// wanted returns the name by which [Options.Only] names the scenario.
func (s *Scenario) wanted() string {
	if s.Callers > 0 {
		return Sweep
	}
	return s.Name
}

// Result holds one run of a scenario.
type Result struct {
	Figures Figures          `json:"figures"`
	Errors  map[string]int64 `json:"errors,omitempty"` // by status, or by failure without an answer
	Sum     *SumCheck        `json:"sum,omitempty"`
}

// Figures holds measured values by name. One that was not measured is absent.
type Figures map[string]float64

// The figures. CPU times are for one request.
const (
	perSecond    = "per_second"
	p50          = "p50_ms"
	p99          = "p99_ms"
	p999         = "p99.9_ms"
	maxLatency   = "max_ms"
	errorCount   = "errors" // requests or transactions that did not succeed in the measured window
	lostChanges  = "lost"   // acknowledged changes that the database lacks
	clientCPU    = "client_us"
	replicaCPU   = "replicas_us"
	databaseCPU  = "postgresql_us"
	othersCPU    = "others_%"   // of the machine, by other programs: the other figures are too low then
	memory       = "memory_mib" // of all replicas at the end
	memoryGrowth = "growth"     // of the memory, from the middle of the window to its end
	spans        = "spans"
	tables       = "tables_mib"    // of the tables with their indexes, at the end
	tablesGrowth = "tables_growth" // from the middle third of the run to its last third
	deadRows     = "dead_rows"     // of the tables at the end, by PostgreSQL's estimate
	spread       = "spread_%"      // half the distance of the slowest and the fastest run; of a median alone
	ratio        = "ratio"         // to the throughput of the baseline; of a median alone
)

// columns returns all figures in the order of the table.
func columns() []string {
	return []string{
		perSecond, spread, ratio, p50, p99, p999, maxLatency, errorCount, lostChanges, clientCPU, replicaCPU,
		databaseCPU, othersCPU, memory, memoryGrowth, spans, tables, tablesGrowth, deadRows,
	}
}

// highest reports whether the highest value of all runs stands for them, not the median.
func highest(figure string) bool {
	return slices.Contains([]string{maxLatency, errorCount, lostChanges, othersCPU, memoryGrowth}, figure)
}

// format prints a figure: a whole number from 100 on, with up to two digits behind the point below.
func format(v float64) string {
	digits := 0
	if v < 100 {
		v = math.Round(100*v) / 100
		digits = -1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// runOf returns the figures of a load and of the processes meanwhile.
func runOf(result *load.Result, seen Figures) Result {
	run := runOfLatency(result.Latency)
	for _, n := range result.Errors {
		run.Figures[errorCount] += float64(n)
	}
	run.Errors, run.Figures[perSecond] = result.Errors, float64(result.Latency.TotalCount())/result.Window.Seconds()
	requests, others := float64(result.Latency.TotalCount())+run.Figures[errorCount], seen[othersCPU]
	maps.Copy(run.Figures, seen)
	for _, figure := range []string{clientCPU, replicaCPU, databaseCPU} {
		others -= seen[figure]
		run.Figures[figure] = seen[figure] / max(requests, 1)
	}
	run.Figures[othersCPU] = max(0, 100*others/float64(result.Window.Microseconds()*int64(runtime.NumCPU())))
	return run
}

// runOfLatency returns the figures of a histogram.
func runOfLatency(took *hdrhistogram.Histogram) Result {
	return Result{Figures: Figures{
		errorCount: 0, p50: percentile(took, 50), p99: percentile(took, 99), p999: percentile(took, 99.9),
		maxLatency: percentile(took, 100),
	}}
}

// percentile returns milliseconds.
func percentile(took *hdrhistogram.Histogram, percent float64) float64 {
	return float64(took.ValueAtPercentile(percent)) / float64(time.Millisecond)
}

// summarize fills in the medians of all scenarios and judges the bars.
func (r *Report) summarize() {
	medians := map[string]Figures{}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		s.summarize()
		medians[s.Name] = s.Median
		base := medians[s.Baseline]
		if s.Baseline != "" && base == nil {
			base = Figures{} // it did not run
		}
		if v, ok := s.Median[perSecond]; ok && base[perSecond] > 0 {
			s.Median[ratio] = v / base[perSecond]
		}
		for _, figure := range columns() {
			if limit, ok := s.Bars[figure]; ok {
				r.Bars = append(r.Bars, s.judge(figure, limit, base, !r.Options.Quick))
			}
			if limit, ok := s.Limits[figure]; ok {
				r.Bars = append(r.Bars, s.judge(figure, limit, nil, !r.Options.Quick))
			}
		}
	}
}

func (s *Scenario) summarize() {
	s.Median = Figures{}
	for _, figure := range columns() {
		var values []float64
		for _, run := range s.Runs {
			if v, ok := run.Figures[figure]; ok {
				values = append(values, v)
			}
		}
		n := len(values)
		if n == 0 {
			continue
		}
		slices.Sort(values)
		s.Median[figure] = (values[(n-1)/2] + values[n/2]) / 2
		if highest(figure) {
			s.Median[figure] = values[n-1]
		}
		if figure == perSecond && n > 1 && values[0] > 0 {
			s.Median[spread] = 50 * (values[n-1] - values[0]) / s.Median[perSecond]
		}
	}
}

// Bar holds one target and what was reached.
type Bar struct {
	Scenario string `json:"scenario"`
	Figure   string `json:"figure"`
	Want     string `json:"want"`
	Got      string `json:"got"`
	// Outcome is met, missed, not measured, or, in a smoke test, not judged.
	Outcome string `json:"outcome"`
}

// judge compares a median with its bar, a multiple of that of the baseline unless base is nil.
func (s *Scenario) judge(figure string, limit float64, base Figures, judged bool) Bar {
	v, ok := s.Median[figure]
	unit := ""
	if base != nil {
		unit = " x " + s.Baseline
		v, ok = v/base[figure], ok && base[figure] > 0
	}
	bound, met := "at most ", v <= limit
	if figure == perSecond {
		bound, met = "at least ", v >= limit
	}
	b := Bar{Scenario: s.Title, Figure: figure, Want: bound + format(limit) + unit, Got: format(v) + unit}
	switch {
	case !ok:
		b.Got, b.Outcome = "-", "not measured"
	case !judged:
		b.Outcome = "not judged"
	case met:
		b.Outcome = "met"
	default:
		b.Outcome = "missed"
	}
	return b
}

// remarks returns what the progress line says of one run.
func (r *Result) remarks() string {
	text := fmt.Sprintf("%10.0f/s", r.Figures[perSecond])
	if _, ok := r.Figures[clientCPU]; ok {
		text += fmt.Sprintf(", p99 %.1f ms, client CPU %.1f µs, other programs %.0f %%",
			r.Figures[p99], r.Figures[clientCPU], r.Figures[othersCPU])
	}
	if len(r.Errors) > 0 {
		text += fmt.Sprint(", errors ", r.Errors)
	}
	if r.Sum != nil && r.Sum.Holds() {
		text += ", sum exact"
	}
	return text
}
