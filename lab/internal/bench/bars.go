package bench

import (
	"fmt"
	"strconv"
	"time"
)

// The bars of the payments service.
const (
	barNewKeys = 0.4 // x bare pgbench running the same statements
	barReplays = 3.0 // x new keys
)

// The bars of the events service.
const (
	barAdd    = 6.0    // x bare pgbench, one transaction per id
	barWork   = 20_000 // events a second, all workers together
	barClaim  = 2.0    // x the claim at a hundredth of the rows
	barLookup = 3 * time.Millisecond
)

// iidyBars are what an implementation on COPY and pgx reached on 8 connections, as multiples of the 18,200 single-row updates a second
// of bare pgbench on the same machine.
func iidyBars() []struct {
	name, scenario string
	perSecond      float64
} {
	return []struct {
		name, scenario string
		perSecond      float64
	}{
		{"items added", scenarioAdd, 242_000},
		{"items paged", scenarioPage, 361_000},
		{"items incremented", scenarioIncrement, 164_000},
		{"items deleted", scenarioDelete, 305_000},
		{"single adds", scenarioAddOne, 5_200},
		{"single increments", scenarioIncrementOne, 6_300},
		{"single gets", scenarioGetOne, 15_000},
		{"single deletes", scenarioDeleteOne, 6_800},
	}
}

// iidyPGBench is the figure that iidyBars were measured beside.
const iidyPGBench = 18_200

// The bars of the pyggpot service.
const (
	barPots      = 0.3 // x bare pgbench running the same statements
	barOnePotP99 = 2 * time.Second
	barAtRandom  = 2.0 // x the time that ten coins take
)

// The bars of the counts service.
const (
	barUniform  = 1.0 // x bare pgbench
	barHot      = 6.0 // x bare pgbench
	barOpenP99  = 50 * time.Millisecond
	barTraceFew = 0.95 // x tracing off
	requiredP99 = 200 * time.Millisecond
	// barGrowth is how much a replica's memory may grow from the middle of the open-loop run to its end and still count as flat: the
	// garbage collector moves the figure by a few percent either way.
	barGrowth = 1.10
)

// Verdict says how a figure compares with its bar.
type Verdict string

// The verdicts.
const (
	Met         Verdict = "met"
	Missed      Verdict = "missed"
	NotMeasured Verdict = "not measured"
	NotJudged   Verdict = "not judged" // a smoke test
)

// Bar is one target and what was reached.
type Bar struct {
	Name    string  `json:"name"`
	Want    string  `json:"want"`
	Got     string  `json:"got"`
	Verdict Verdict `json:"verdict"`
}

// judge fills in the bars.
func (r *Report) judge() {
	switch r.Service {
	case servicePayments:
		r.Bars = []Bar{r.ratioBar("new keys", scenarioNewKeys, barNewKeys), r.replayBar()}
	case serviceEvents:
		r.Bars = r.eventsBars()
	case serviceIidy:
		for _, b := range iidyBars() {
			r.Bars = append(r.Bars, r.ratioBar(b.name, b.scenario, b.perSecond/iidyPGBench))
		}
	case servicePyggpot:
		r.Bars = append([]Bar{r.ratioBar("many pots", scenarioPots, barPots)}, append(r.onePotBars(), r.randomBar())...)
	default:
		if r.Options.Trace {
			r.Bars = r.traceBars()
			break
		}

		r.Bars = []Bar{
			r.ratioBar("saturated, uniform", scenarioUniform, barUniform),
			r.ratioBar("saturated, one hot item", hotName(r.Options.Replicas), barHot),
		}
		r.Bars = append(r.Bars, r.openBars()...)
	}

	for i := range r.Bars {
		if !r.Options.Judge && r.Bars[i].Verdict != NotMeasured {
			r.Bars[i].Verdict = NotJudged
		}
	}
}

func (r *Report) ratioBar(name, scenario string, want float64) Bar {
	bar := Bar{Name: name, Want: fmt.Sprintf("at least %.4g x bare pgbench", want), Got: "-", Verdict: NotMeasured}

	if ratio := r.ratio(r.find(scenario)); ratio > 0 {
		bar.Got = fmt.Sprintf("%.2f x", ratio)
		bar.Verdict = verdict(ratio >= want)
	}

	return bar
}

// traceBars compare with the same load on replicas that do not trace.
func (r *Report) traceBars() []Bar {
	few := Bar{
		Name: "1 % traced", Want: fmt.Sprintf("at least %.2f x tracing off", barTraceFew), Got: "-", Verdict: NotMeasured,
	}
	if ratio := r.ratio(r.find(scenarioTraceFew)); ratio > 0 {
		few.Got, few.Verdict = fmt.Sprintf("%.2f x", ratio), verdict(ratio >= barTraceFew)
	}

	all := Bar{Name: "every request traced", Want: "shown, there is no bar", Got: "-", Verdict: NotMeasured}
	if ratio := r.ratio(r.find(scenarioTraceAll)); ratio > 0 {
		all.Got, all.Verdict = fmt.Sprintf("%.2f x", ratio), NotJudged
	}

	return []Bar{few, all}
}

func (r *Report) replayBar() Bar {
	bar := Bar{Name: "replays", Want: fmt.Sprintf("at least %.1f x new keys", barReplays), Got: "-", Verdict: NotMeasured}

	fresh, again := r.find(scenarioNewKeys), r.find(scenarioReplays)
	if fresh != nil && again != nil && fresh.Median.PerSecond > 0 {
		ratio := again.Median.PerSecond / fresh.Median.PerSecond
		bar.Got = fmt.Sprintf("%.2f x", ratio)
		bar.Verdict = verdict(ratio >= barReplays)
	}

	return bar
}

func (r *Report) eventsBars() []Bar {
	work := Bar{Name: "workers together", Want: "at least " + thousands(barWork) + "/s", Got: "-", Verdict: NotMeasured}
	if s := r.find(scenarioWork); s != nil {
		work.Got, work.Verdict = thousands(s.Median.PerSecond)+"/s", verdict(s.Median.PerSecond >= barWork)
	}

	claim := Bar{
		Name: "claim at 1,000,000 processed", Want: fmt.Sprintf("at most %.1f x that at 10,000", barClaim), Got: "-", Verdict: NotMeasured,
	}
	if few, many := r.find(scenarioClaimFew), r.find(scenarioClaimMany); few != nil && many != nil && few.Median.Latency.P50 > 0 {
		ratio := float64(many.Median.Latency.P50) / float64(few.Median.Latency.P50)
		claim.Got, claim.Verdict = fmt.Sprintf("%.2f x", ratio), verdict(ratio <= barClaim)
	}

	lookup := Bar{Name: "lookup at 1,000,000, median", Want: fmt.Sprintf("under %v", barLookup), Got: "-", Verdict: NotMeasured}
	if s := r.find(scenarioLookup); s != nil {
		lookup.Got, lookup.Verdict = milliseconds(s.Median.Latency.P50), verdict(s.Median.Latency.P50 < barLookup)
	}

	return []Bar{r.ratioBar("POST /events", scenarioAddEvent, barAdd), work, claim, lookup}
}

func (r *Report) onePotBars() []Bar {
	lost := Bar{Name: "one pot, lost changes", Want: "0", Got: "-", Verdict: NotMeasured}
	latency := Bar{Name: "one pot, p99", Want: fmt.Sprintf("under %v", barOnePotP99), Got: "-", Verdict: NotMeasured}

	if one := r.find(scenarioOnePot); one != nil {
		missing := int64(0)

		for _, run := range one.Runs {
			if run.Sum != nil {
				missing += max(0, run.Sum.Acknowledged-run.Sum.Gained)
			}
		}

		lost.Got, lost.Verdict = strconv.FormatInt(missing, 10), verdict(missing == 0)
		latency.Got, latency.Verdict = milliseconds(one.Median.Latency.P99), verdict(one.Median.Latency.P99 < barOnePotP99)
	}

	return []Bar{lost, latency}
}

func (r *Report) randomBar() Bar {
	bar := Bar{Name: "10^9 coins at random", Want: fmt.Sprintf("at most %.1f x the time of 10", barAtRandom), Got: "-", Verdict: NotMeasured}

	few, many := r.find(scenarioFewAtRandom), r.find(scenarioManyAtRandom)
	if few != nil && many != nil && few.Median.Latency.P50 > 0 {
		ratio := float64(many.Median.Latency.P50) / float64(few.Median.Latency.P50)
		bar.Got, bar.Verdict = fmt.Sprintf("%.2f x", ratio), verdict(ratio <= barAtRandom)
	}

	return bar
}

func (r *Report) openBars() []Bar {
	errors := Bar{Name: "open loop, errors", Want: "0", Got: "-", Verdict: NotMeasured}
	latency := Bar{
		Name: "open loop, p99", Want: fmt.Sprintf("under %v (required: %v)", barOpenP99, requiredP99), Got: "-", Verdict: NotMeasured,
	}
	memory := Bar{
		Name: "open loop, memory flat", Want: fmt.Sprintf("end at most %.2f x middle", barGrowth), Got: "-", Verdict: NotMeasured,
	}

	open := r.find(scenarioOpen)
	if open == nil {
		return []Bar{errors, latency, memory}
	}

	errors.Got = strconv.FormatInt(open.Median.Errors, 10)
	errors.Verdict = verdict(open.Median.Errors == 0)

	latency.Got = milliseconds(open.Median.Latency.P99)
	latency.Verdict = verdict(open.Median.Latency.P99 < barOpenP99)

	if growth, ok := growthOf(open.Runs); ok {
		memory.Got = fmt.Sprintf("%.2f x", growth)
		memory.Verdict = verdict(growth <= barGrowth)
	}

	return []Bar{errors, latency, memory}
}

// growthOf is the largest growth of any replica in any run from the middle to the end.
func growthOf(runs []Run) (growth float64, ok bool) {
	for _, run := range runs {
		if len(run.Memory) < 3 {
			continue
		}

		middle, end := run.Memory[len(run.Memory)/2].RSS, run.Memory[len(run.Memory)-1].RSS
		for i := range end {
			if middle[i] > 0 {
				growth, ok = max(growth, float64(end[i])/float64(middle[i])), true
			}
		}
	}

	return growth, ok
}

func verdict(met bool) Verdict {
	if met {
		return Met
	}

	return Missed
}
