package bench

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// Report is all that a bench measured; its JSON form is for machines, [Report.WriteTable] and [Report.WriteSVG] are for people.
type Report struct {
	Service string    `json:"service"`
	Started time.Time `json:"started"`
	// Version is that of this program, which `make bench` builds together with the service: what was measured.
	Version string  `json:"version"`
	Machine Machine `json:"machine"`
	Options Options `json:"options"`
	// Scenarios are in the order in which they ran within a round.
	Scenarios []Series `json:"scenarios"`
	Bars      []Bar    `json:"bars"`
}

// Machine says where the figures were measured.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Platform string `json:"platform"`
	Go       string `json:"go"`
	// PostgreSQL is the server's version; Settings are those of its settings that decide its speed.
	PostgreSQL string            `json:"postgresql"`
	Settings   map[string]string `json:"settings"`
}

// Series is one scenario with all its runs.
type Series struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Baseline names the scenario that this one is held against.
	Baseline string `json:"baseline,omitempty"`
	Runs     []Run  `json:"runs"`
	// Median has the median of each figure over the runs, except that Errors is their sum and the longest latency the longest of all.
	Median Summary `json:"median"`
}

// Summary is what most readers want to know of a run.
type Summary struct {
	PerSecond float64 `json:"per_second"`
	// Errors counts requests (or transactions of pgbench) that did not succeed in the measured window.
	Errors  int64   `json:"errors"`
	Latency Latency `json:"latency"`
	CPU     CPU     `json:"cpu"`
}

// Run is one run of a scenario.
type Run struct {
	Summary

	Statuses map[int]int64          `json:"statuses,omitempty"`
	Failures map[load.Failure]int64 `json:"failures,omitempty"`
	// Lateness is how long after it was due a request was sent; it is part of Latency. Only the open loop has it.
	Lateness *Latency       `json:"lateness,omitempty"`
	Curve    []Point        `json:"curve,omitempty"`
	Memory   []MemorySample `json:"memory,omitempty"`
	Sum      *SumCheck      `json:"sum,omitempty"`
	// Spans is how many spans came to the receiver, the warm-up's included; only the bench of tracing counts them.
	Spans int64 `json:"spans,omitempty"`
	// Others is the share of the machine's CPU, 0 to 1, that neither the client nor the replicas driven nor the database used. A figure
	// taken while others were at work is too low. It is 0 where it is not known.
	Others float64 `json:"others,omitempty"`
}

// Latency holds nanoseconds. pgbench reports no more than the mean.
type Latency struct {
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns,omitempty"`
	P90  time.Duration `json:"p90_ns,omitempty"`
	P99  time.Duration `json:"p99_ns,omitempty"`
	P999 time.Duration `json:"p999_ns,omitempty"`
	Max  time.Duration `json:"max_ns,omitempty"`
}

// CPU is the processor time that one request cost each party, in nanoseconds; 0 where it is not known.
type CPU struct {
	Client     time.Duration `json:"client_ns"`
	Replicas   time.Duration `json:"replicas_ns"`
	PostgreSQL time.Duration `json:"postgresql_ns"`
}

// Point is one point of the latency curve.
type Point struct {
	Percentile float64       `json:"percentile"`
	Latency    time.Duration `json:"latency_ns"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(percentile float64) time.Duration { return time.Duration(h.ValueAtPercentile(percentile)) }

	return Latency{
		Mean: time.Duration(h.Mean()), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max()),
	}
}

// curveOf takes points that are evenly spread on the plot's axis, where each further nine has the same width.
func curveOf(h *hdrhistogram.Histogram) []Point {
	if h.TotalCount() == 0 {
		return nil
	}

	const pointsANine = 8

	var (
		curve    []Point
		distance = 1.0                // from 100 %, as a fraction
		factor   = 0.7498942093324559 // 10^(-1/8)
	)

	for range curveNines*pointsANine + 1 {
		percentile := 100 * (1 - distance)
		curve = append(curve, Point{Percentile: percentile, Latency: time.Duration(h.ValueAtPercentile(percentile))})
		distance *= factor
	}

	return curve
}

// find returns nil when the scenario was not run.
func (r *Report) find(name string) *Series {
	i := slices.IndexFunc(r.Scenarios, func(s Series) bool { return s.Name == name && len(s.Runs) > 0 })
	if i < 0 {
		return nil
	}

	return &r.Scenarios[i]
}

// ratio is the throughput of a series over that of its baseline; 0 when one of the two is missing.
func (r *Report) ratio(s *Series) float64 {
	if s == nil {
		return 0
	}

	base := r.find(s.Baseline)
	if base == nil || base.Median.PerSecond == 0 {
		return 0
	}

	return s.Median.PerSecond / base.Median.PerSecond
}

// summarize fills in the median of the runs.
func (s *Series) summarize() {
	s.Median = Summary{
		PerSecond: medianOf(s.Runs, func(r Run) float64 { return r.PerSecond }),
		Latency: Latency{
			Mean: medianOf(s.Runs, func(r Run) time.Duration { return r.Latency.Mean }),
			P50:  medianOf(s.Runs, func(r Run) time.Duration { return r.Latency.P50 }),
			P90:  medianOf(s.Runs, func(r Run) time.Duration { return r.Latency.P90 }),
			P99:  medianOf(s.Runs, func(r Run) time.Duration { return r.Latency.P99 }),
			P999: medianOf(s.Runs, func(r Run) time.Duration { return r.Latency.P999 }),
		},
		CPU: CPU{
			Client:     medianOf(s.Runs, func(r Run) time.Duration { return r.CPU.Client }),
			Replicas:   medianOf(s.Runs, func(r Run) time.Duration { return r.CPU.Replicas }),
			PostgreSQL: medianOf(s.Runs, func(r Run) time.Duration { return r.CPU.PostgreSQL }),
		},
	}

	for _, run := range s.Runs {
		s.Median.Errors += run.Errors
		s.Median.Latency.Max = max(s.Median.Latency.Max, run.Latency.Max)
	}
}

// medianOf is the middle value, or the mean of the two in the middle; 0 without any.
func medianOf[T ~float64 | ~int64](runs []Run, figure func(Run) T) T {
	if len(runs) == 0 {
		return 0
	}

	values := make([]T, 0, len(runs))
	for _, run := range runs {
		values = append(values, figure(run))
	}

	slices.Sort(values)

	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
