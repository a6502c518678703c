// Package bench measures a service against bare PostgreSQL and reports the figures.
//
// One run of a scenario is worth little on a machine that does other things too, so every scenario runs several times,
// the scenarios take turns (a slow minute then hits all of them and not one), and the report gives medians. After each
// run that changes rows the database is read: a figure counts only when every acknowledged change is there exactly
// once.
//
// A service has a table of scenarios with their bars (counts.go, payments.go, ...). One runner drives them all, as a
// closed loop, as an open loop, or with every request once. Behind the table comes a sweep: the service's main load by
// 1 to 256 callers, beside pgbench with as many clients.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// ErrNotExact reports that the database does not hold what was acknowledged. Unlike a missed bar this is a failure of
// the service.
var ErrNotExact = errors.New("what is in the database does not add up to what was acknowledged")

// errLeftOut reports that a scenario needs a program that is not installed.
var errLeftOut = errors.New("left out")

// Options say what to measure and how much.
type Options struct {
	// Service names the service to measure.
	Service string
	// Runs is how often each scenario runs; the report gives medians.
	Runs int
	// Duration is the measured part of a closed-loop run, and of one of pgbench (there in whole seconds). An open-loop
	// run is three times as long, the warm-up a fifth.
	Duration time.Duration
	// Only names the scenarios to run, [Sweep] all of the sweep; empty means all but those that run only when named.
	Only []string
	// Peer is the program of the older IIDY (github.com/manniwood/iidy), to be compared with iidy; empty for none.
	Peer string
	// Quick makes it a smoke test: each scenario once, for a second, with fewer rows and connections, and no bar is
	// judged.
	Quick bool
}

// Validate returns an error that names an option out of bounds.
func (o Options) Validate() error {
	if suites[o.Service] == nil {
		return fmt.Errorf("there is no bench of %q; there is one of %q", o.Service, targets.Names())
	}
	var names []string
	for _, s := range suites[o.Service](&runner{Options: o}).scenarios {
		names = append(names, s.wanted())
		if s.needs != "" && slices.Contains(o.Only, s.Name) && !slices.Contains(o.Only, s.needs) {
			return fmt.Errorf("the scenario %s needs %s before it: name both", s.Name, s.needs)
		}
	}

	unknown := slices.IndexFunc(o.Only, func(name string) bool { return !slices.Contains(names, name) })
	switch {
	case unknown >= 0:
		// The scenarios of the sweep stand in a row.
		return fmt.Errorf("there is no scenario %q; there are %q", o.Only[unknown], slices.Compact(names))
	case o.Peer != "" && o.Service != targets.Iidy:
		return errors.New("a peer is measured with iidy alone")
	case o.Runs < 1 || o.Duration < time.Second:
		return fmt.Errorf("runs must be at least 1 and duration at least 1s, not %d and %v", o.Runs, o.Duration)
	}
	return nil
}

// warmupShare is the share of a run's measured part that its warm-up takes on top.
const warmupShare = 5

func (o Options) warmup() time.Duration { return o.Duration / warmupShare }

// pick returns the number for a published measurement or that for a smoke test.
func (o Options) pick(full, quick int) int {
	if o.Quick {
		return quick
	}
	return full
}

// rows returns how many counters or items the scenarios work on, and how many rows the table of pgbench has.
func (o Options) rows() int { return o.pick(10_000, 1000) }

// suite holds what is particular to the bench of one service.
type suite struct {
	// replicas is how many replicas run, connections how many keep-alive connections the generator holds; 0 means 256.
	replicas, connections int
	// prepare makes what the scenarios need, nil for nothing. The replicas run by then.
	prepare func(ctx context.Context) error
	// scenarios stand in the order of a round, each baseline before what is compared with it.
	scenarios []Scenario
}

// suites are the benches by service.
var suites = map[string]func(*runner) suite{}

// register adds the bench of a service. Its result has no meaning: it lets a file register at package level.
func register(service string, s func(*runner) suite) bool { //nolint:unparam // a variable needs a value
	suites[service] = s
	return true
}

// Run starts a private PostgreSQL server and replicas of the service, runs the scenarios of the options, and stops
// everything. At the end of ctx the measurement ends; at the end of hurry, which outlives ctx, what has not stopped by
// then is killed. The report is returned with an error, too, as far as it got; the error is [ErrNotExact] when a sum
// did not hold after all runs.
func Run(ctx, hurry context.Context, o Options, h Host) (report *Report, err error) {
	if o.Quick {
		o.Runs, o.Duration = 1, time.Second
	}
	r := &runner{Options: o, host: h}
	chosen := suites[r.Service](r)
	r.connections = cmp.Or(chosen.connections, o.pick(256, 32))
	defer func() { err = errors.Join(err, r.stop(hurry)) }()
	if err := r.start(ctx, hurry, chosen.replicas); err != nil {
		return nil, err
	}
	return r.measure(ctx, chosen)
}

// measure runs the scenarios that the options name, all where they name none. The replicas run.
func (r *runner) measure(ctx context.Context, s suite) (*Report, error) {
	// One thread of Go code drives the load with a third less CPU than two: the second would mostly spin in search of
	// work, on cores that the servers need.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if s.prepare != nil {
		r.printf("making the rows that the scenarios need\n")
		if err := s.prepare(ctx); err != nil {
			return nil, fmt.Errorf("prepare the scenarios: %w", err)
		}
	}
	chosen := slices.DeleteFunc(s.scenarios, func(one Scenario) bool {
		if len(r.Only) == 0 {
			return one.named
		}
		return !slices.Contains(r.Only, one.wanted())
	})
	report := &Report{
		Started: time.Now().UTC(), Version: lifecycle.Version(), Options: r.Options, Machine: r.machine, Scenarios: chosen,
	}
	err := r.rounds(ctx, chosen)
	report.summarize()
	return report, err
}

// printf writes progress. A line that cannot be written does not end a measurement of minutes.
func (r *runner) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.host.Progress, format, args...)
}

// rounds runs every scenario once per round, so that all of them share the machine's good and bad minutes.
func (r *runner) rounds(ctx context.Context, scenarios []Scenario) (inexact error) {
	for round := range r.Runs {
		for i := range scenarios {
			s := &scenarios[i]
			r.printf("round %d/%d  %-52s ", round+1, r.Runs, s.Title)
			run, err := s.run(ctx)
			if err != nil {
				r.printf("%v\n", err)
				if errors.Is(err, errLeftOut) {
					continue
				}
				return errors.Join(fmt.Errorf("%s: %w", s.Name, err), inexact)
			}

			r.printf("%s\n", run.remarks())
			if run.Sum != nil && !run.Sum.Holds() {
				inexact = errors.Join(inexact, fmt.Errorf("%w: %s, round %d: %+v", ErrNotExact, s.Name, round+1, *run.Sum))
			}
			s.Runs = append(s.Runs, run)
		}
	}
	return inexact
}

// oneByOne repeats work for the duration, after the warm-up, and returns the figures of the times that it took.
func (r *runner) oneByOne(work func() (took time.Duration, err error)) (Result, error) {
	times := load.NewHistogram()
	for begin := time.Now(); time.Since(begin) < r.warmup()+r.Duration; {
		measured := time.Since(begin) >= r.warmup()
		took, err := work()
		if err == nil && measured {
			err = times.RecordValue(int64(took))
		}
		if err != nil {
			return Result{}, err
		}
	}
	run := runOfLatency(times)
	run.Figures[perSecond] = float64(time.Second) / max(times.Mean(), 1)
	return run, nil
}
