package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// Report holds all that a bench measured. [Report.WriteTable] prints it for people, [Report.Save] writes its JSON form.
type Report struct {
	Started time.Time `json:"started"`
	// Version is that of this program, which `make bench` builds together with the service.
	Version string  `json:"version"`
	Machine Machine `json:"machine"`
	Options Options `json:"options"`
	// Scenarios are in the order in which they ran within a round.
	Scenarios []Series `json:"scenarios"`
	Bars      []Bar    `json:"bars"`
}

// Series holds the runs of one scenario.
type Series struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Baseline names the scenario that this one is compared with.
	Baseline string   `json:"baseline,omitempty"`
	Runs     []Result `json:"runs"`
	// Median holds each figure's median over the runs, the sum of those that count faults, and the largest of those
	// that are a maximum.
	Median Figures `json:"median"`
}

// Result holds one run of a scenario.
type Result struct {
	Figures  Figures                `json:"figures"`
	Statuses map[int]int64          `json:"statuses,omitempty"`
	Failures map[load.Failure]int64 `json:"failures,omitempty"`
	Sum      *SumCheck              `json:"sum,omitempty"`
}

// Figures holds measured values by name. One that was not measured is absent.
type Figures map[string]float64

// The figures. CPU times are for one request.
const (
	perSecond    = "per_second"
	p50          = "p50_ms"
	p99          = "p99_ms"
	p999         = "p999_ms"
	maxLatency   = "max_ms"
	lateP99      = "late_p99_ms" // how long after it was due a request was sent; part of the latency
	errorCount   = "errors"      // requests or transactions that did not succeed in the measured window
	lostChanges  = "lost"        // acknowledged changes that the database lacks
	clientCPU    = "client_us"
	replicaCPU   = "replicas_us"
	databaseCPU  = "postgresql_us"
	othersCPU    = "others_percent" // of the machine, by other programs: the other figures are too low then
	memory       = "memory_mib"     // of all replicas at the end
	memoryGrowth = "memory_growth"  // from the middle of the window to its end
	spans        = "spans"
	spread       = "spread_percent" // half the distance of the slowest and the fastest run; of a median alone
	ratio        = "ratio"          // to the throughput of the baseline; of a median alone
)

// runOf returns the figures of a load and of the processes meanwhile.
func runOf(result *load.Result, seen observation) Result {
	run := runOfLatency(result.Latency)
	run.Statuses, run.Failures = result.Statuses, result.Failures
	run.Figures[perSecond], run.Figures[errorCount] = result.Throughput(), float64(result.Errors())
	requests := float64(result.Succeeded + result.Errors())
	for name, cpu := range map[string]time.Duration{
		clientCPU: seen.client, replicaCPU: seen.replicas, databaseCPU: seen.database,
	} {
		if cpu > 0 && requests > 0 {
			run.Figures[name] = float64(cpu) / float64(time.Microsecond) / requests
		}
	}
	if seen.replicas > 0 && seen.database > 0 && result.Window > 0 {
		others := seen.machine - seen.replicas - seen.database - seen.client
		run.Figures[othersCPU] = max(0, 100*float64(others)/float64(result.Window)/float64(runtime.NumCPU()))
	}
	if n := len(seen.memory); n >= 3 && seen.memory[n/2] > 0 {
		run.Figures[memory] = seen.memory[n-1] / (1 << 20)
		run.Figures[memoryGrowth] = seen.memory[n-1] / seen.memory[n/2]
	}
	return run
}

// runOfLatency returns the figures of work that was done one by one.
func runOfLatency(took *hdrhistogram.Histogram) Result {
	at := func(percentile float64) float64 { return toMS(took.ValueAtPercentile(percentile)) }
	return Result{Figures: Figures{
		perSecond: float64(time.Second) / max(took.Mean(), 1), p50: at(50), p99: at(99), p999: at(99.9), maxLatency: at(100),
	}}
}

func toMS(nanoseconds int64) float64 { return float64(nanoseconds) / float64(time.Millisecond) }

// summarize fills in the medians of all series.
func (r *Report) summarize() {
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		s.summarize()
		if x, ok := r.figure(perSecond, s.Name, s.Baseline); ok && s.Baseline != "" {
			s.Median[ratio] = x
		}
	}
}

func (s *Series) summarize() {
	all := map[string][]float64{}
	for _, run := range s.Runs {
		for name, v := range run.Figures {
			all[name] = append(all[name], v)
		}
	}
	s.Median = Figures{}
	for name, values := range all {
		slices.Sort(values)
		switch name {
		case errorCount, lostChanges:
			for _, v := range values {
				s.Median[name] += v
			}
		case maxLatency, othersCPU, memoryGrowth:
			s.Median[name] = values[len(values)-1]
		default:
			s.Median[name] = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
		}
		if name == perSecond && len(values) > 1 && values[0] > 0 {
			s.Median[spread] = 50 * (values[len(values)-1] - values[0]) / s.Median[name]
		}
	}
}

// figure returns a figure of a scenario, divided by that of another one where over names it; false when it was not
// measured.
func (r *Report) figure(name, scenario, over string) (float64, bool) {
	i := slices.IndexFunc(r.Scenarios, func(s Series) bool { return s.Name == scenario && len(s.Runs) > 0 })
	if i < 0 {
		return 0, false
	}
	v, ok := r.Scenarios[i].Median[name]
	if over == "" || !ok {
		return v, ok
	}
	base, ok := r.figure(name, over, "")
	return v / base, ok && base > 0
}

// bar is one target for the medians of a report.
type bar struct {
	name, figure, scenario string
	// over names the scenario whose figure is 1; empty for an absolute bar.
	over  string
	bound bound
	limit float64
}

// bound says how a limit bounds a figure.
type bound string

const (
	atLeast bound = "at least"
	atMost  bound = "at most"
	noBound bound = "shown beside"
)

// Bar holds one target and what was reached.
type Bar struct {
	Name    string  `json:"name"`
	Want    string  `json:"want"`
	Got     string  `json:"got"`
	Outcome Outcome `json:"outcome"`
}

// Outcome says how a figure compares with its bar.
type Outcome string

// The outcomes.
const (
	Met         Outcome = "met"
	Missed      Outcome = "missed"
	NotMeasured Outcome = "not measured"
	NotJudged   Outcome = "not judged" // a smoke test, or a figure without a bar
)

// judge fills in the bars.
func (r *Report) judge(bars []bar) {
	for _, b := range bars {
		show := func(v float64) string { return format(b.figure, v) + describe(b.figure).unit }
		if b.over != "" {
			show = func(v float64) string { return fmt.Sprintf("%.3g x", v) }
		}
		want := strings.TrimSpace(string(b.bound) + " " + show(b.limit) + " " + b.over)
		judged := Bar{Name: b.name, Want: want, Got: "-", Outcome: NotMeasured}
		if v, ok := r.figure(b.figure, b.scenario, b.over); ok {
			judged.Got, judged.Outcome = show(v), Met
			switch {
			case b.bound == noBound || !r.Options.Judge:
				judged.Outcome = NotJudged
			case (b.bound == atLeast && v < b.limit) || (b.bound == atMost && v > b.limit):
				judged.Outcome = Missed
			}
		}
		r.Bars = append(r.Bars, judged)
	}
}

// Save writes the report's JSON form into the folder, named after the service, over that of the last time. It returns
// the file's path.
func (r *Report) Save(dir string) (path string, err error) {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for the report: %w", err)
	}
	path = filepath.Join(dir, r.Options.Service+".json")
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("save the report: %w", err)
	}
	return path, nil
}
