package bench

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// Report holds all that a bench measured. [Report.Markdown] prints it, [Report.Publish] puts it into a page.
type Report struct {
	Started time.Time
	// Version is the version of this program, which `make bench` builds together with the service.
	Version string
	Machine string
	Options Options
	// Scenarios are in the order in which they ran within a round.
	Scenarios []Scenario
}

// Scenario holds one way to load the system, and its runs.
type Scenario struct {
	Name  string
	Title string
	// Anchor says that it does not measure the service, but what the service is compared with.
	Anchor bool
	// Baseline names the scenario that this one is compared with; empty for none.
	Baseline string
	// Bars bounds medians: perSecond from below, others from above. Those of perSecond and p50 are multiples of the
	// baseline's median where there is one.
	Bars Figures
	// Series and Callers say which point of the sweep this is; empty and 0 for what belongs to the table.
	Series  string
	Callers int
	Runs    []Result
	// Median holds each figure's median over the runs, or the highest of those that count faults or are a maximum.
	Median Figures
	// Goals are the bars in words, each with its outcome unless it was reached.
	Goals []string

	// needs names the scenario that makes what this one works on; empty, or its own name, for none.
	needs string
	// named says that it runs only when it is named.
	named bool
	// run runs it one time. The error is errLeftOut, by errors.Is, where it cannot.
	run func(ctx context.Context) (Result, error)
}

// wanted returns the name of the scenario in [Options.Only].
func (s *Scenario) wanted() string {
	if s.Callers > 0 {
		return Sweep
	}
	return s.Name
}

// Result holds one run of a scenario.
type Result struct {
	Figures Figures
	Errors  map[string]int64 // by status, or by failure without an answer
	Sum     *SumCheck
}

// Figures holds measured values by name. One that was not measured is absent.
type Figures map[string]float64

// The figures. CPU times are for one request.
const (
	perSecond    = "per_second"
	p50          = "p50_ms"
	p99          = "p99_ms"
	errorCount   = "errors" // requests or transactions that did not succeed in the measured window
	lostChanges  = "lost"   // acknowledged changes that the database lacks
	clientCPU    = "client_us"
	replicaCPU   = "replicas_us"
	databaseCPU  = "postgresql_us"
	othersCPU    = "others_%"      // of the machine, by other programs: the other figures are too low then
	memory       = "memory_mib"    // of all replicas at the end
	memoryGrowth = "growth"        // of the memory, from the middle of the window to its end
	tables       = "tables_mib"    // of the tables with their indexes, at the end
	tablesGrowth = "tables_growth" // from the middle of the window to its end
	ratio        = "ratio"         // to the throughput of the baseline; of a median alone
)

// highest reports whether the highest value of all runs stands for them, not the median.
func highest(figure string) bool {
	return slices.Contains([]string{errorCount, lostChanges, othersCPU, memoryGrowth}, figure)
}

// runOf returns the figures of a load and of the processes during it.
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
	return Result{Figures: Figures{errorCount: 0, p50: percentile(took, 50), p99: percentile(took, 99)}}
}

// percentile returns milliseconds.
func percentile(took *hdrhistogram.Histogram, percent float64) float64 {
	return float64(took.ValueAtPercentile(percent)) / float64(time.Millisecond)
}

// summarize fills in the medians of all scenarios and judges them.
func (r *Report) summarize() {
	medians := map[string]Figures{}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		s.summarize()
		medians[s.Name] = s.Median

		base := medians[s.Baseline]
		if v, ok := s.Median[perSecond]; ok && base[perSecond] > 0 {
			s.Median[ratio] = v / base[perSecond]
		}
		for _, figure := range []string{perSecond, p50, p99, errorCount, memoryGrowth, tablesGrowth} {
			limit, bounded := s.Bars[figure]
			if !bounded {
				continue
			}
			v, measured := s.Median[figure]
			unit := ""
			if s.Baseline != "" && (figure == perSecond || figure == p50) {
				v, measured, unit = v/base[figure], measured && base[figure] > 0, " x"
			}
			s.goal(figure, limit, unit, v, measured, r.Options.Quick)
		}
	}
}

func (s *Scenario) summarize() {
	values := map[string][]float64{}
	for _, run := range s.Runs {
		for figure, v := range run.Figures {
			values[figure] = append(values[figure], v)
		}
	}

	s.Median = Figures{}
	for figure, all := range values {
		n := len(all)
		slices.Sort(all)
		s.Median[figure] = (all[(n-1)/2] + all[n/2]) / 2
		if highest(figure) {
			s.Median[figure] = all[n-1]
		}
	}
}

// goal adds a bound on a median or on its multiple of the baseline, whether it was measured and, unless the run is a
// smoke test, whether it was missed.
func (s *Scenario) goal(figure string, limit float64, unit string, v float64, measured, quick bool) {
	what, milliseconds := strings.CutSuffix(figure, "_ms")
	if milliseconds && unit == "" {
		unit = " ms"
	}
	goal, met := what+" at most ", v <= limit
	if figure == perSecond {
		goal, met = "at least ", v >= limit
	}
	goal += strconv.FormatFloat(limit, 'f', -1, 64) + unit

	switch {
	case !measured:
		goal += " (**not measured**)"
	case quick:
		goal += " (not judged)"
	case !met:
		goal += " (**missed**)"
	}
	s.Goals = append(s.Goals, goal)
}

// remarks returns what the progress line says of one run.
func (r *Result) remarks() string {
	text := fmt.Sprintf("%10.0f/s", r.Figures[perSecond])
	if _, ok := r.Figures[clientCPU]; ok {
		text += fmt.Sprintf(", p99 %.1f ms; CPU: client %.0f, replicas %.0f, PostgreSQL %.0f µs, other programs %.0f %%",
			r.Figures[p99], r.Figures[clientCPU], r.Figures[replicaCPU], r.Figures[databaseCPU], r.Figures[othersCPU])
	}
	if len(r.Errors) > 0 {
		text += fmt.Sprint(", errors ", r.Errors)
	}
	if r.Sum != nil && r.Sum.Holds() {
		text += ", sum exact"
	}
	return text
}
