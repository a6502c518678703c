package bench

import (
	"context"
	"fmt"
	"time"
)

// Sweep names the scenarios of the sweep among [Options.Only].
const Sweep = "sweep"

// sweepRun is the measured part of each run of a sweep, at most: its figures show a course, and no bar is judged by
// them.
const sweepRun = 1500 * time.Millisecond

// series measures one thing with a growing number of callers.
type series struct {
	// name is that of the line in the plot.
	name string
	// run returns a run with as many callers, of a length.
	run func(callers int, duration time.Duration) func(context.Context) (Result, error)
}

// sweep returns the scenarios that load each series with 1 to 256 callers, taking turns. The others are compared with
// the first, which is pgbench.
func (r *runner) sweep(script string, others ...series) (scenarios []Scenario) {
	duration, levels := min(r.Duration, sweepRun), []int{1, 4, 16, 64, 256}
	if r.Quick {
		levels = []int{1, 16}
	}
	all := append([]series{{"pgbench", func(callers int, d time.Duration) func(context.Context) (Result, error) {
		return r.timed(script, callers, d/warmupShare, d)
	}}}, others...)
	for _, callers := range levels {
		baseline := ""
		for i, one := range all {
			s := Scenario{
				Name: fmt.Sprintf("%s-%d-%d", Sweep, callers, i), Title: fmt.Sprintf("sweep of %s, callers: %d", one.name, callers),
				Baseline: baseline, Series: one.name, Callers: callers, run: one.run(callers, duration),
			}
			scenarios = append(scenarios, s)
			if i == 0 {
				baseline = s.Name
			}
		}
	}
	return scenarios
}

// loaded returns the series of a load that changes rows.
func (r *runner) loaded(name string, next func() drive) series {
	return series{name, func(callers int, duration time.Duration) func(context.Context) (Result, error) {
		return func(ctx context.Context) (Result, error) {
			d := next()
			d.Connections, d.Duration = callers, duration
			return r.load(ctx, d)
		}
	}}
}
