package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// ErrNotExact says that the counters do not hold what was acknowledged. Unlike a missed bar this is a failure of the service.
var ErrNotExact = errors.New("the counters do not add up to the acknowledged increments")

// runner holds what the runs of one bench share.
type runner struct {
	system   System
	options  Options
	counters *counters
	baseline *pgbench.Bench // nil without pgbench
	progress progress
}

// Counts measures the counts service. Progress goes to w line by line. The report is returned with an error, too, as far as it got; the
// error is [ErrNotExact] when a sum did not hold after all runs.
func Counts(ctx context.Context, system System, options Options, w io.Writer) (*Report, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}

	if needed := options.ReplicasNeeded(); len(system.Replicas) < needed {
		return nil, fmt.Errorf("the scenarios need %s, %d run", replicas(needed), len(system.Replicas))
	}

	// One thread of Go code drives the load with a third less CPU than two: the second would mostly spin in search of work, on cores
	// that the servers need.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))

	r := &runner{
		system: system, options: options, counters: newCounters(system.Replicas[0], options.Items), progress: progress{w: w},
	}

	report := &Report{Service: "counts", Started: time.Now().UTC(), Version: lifecycle.Version(), Options: options}

	if err := r.prepare(ctx, report); err != nil {
		return nil, err
	}

	for _, s := range options.scenarios() {
		report.Scenarios = append(report.Scenarios, Series{Name: s.name, Title: s.title, Baseline: s.baseline})
	}

	err := r.rounds(ctx, report)

	for i := range report.Scenarios {
		report.Scenarios[i].summarize()
	}

	report.judge()

	return report, err
}

func (r *runner) prepare(ctx context.Context, report *Report) error {
	var err error
	if report.Machine, err = machine(ctx, r.system.DatabaseURL); err != nil {
		return err
	}

	if r.system.PGBench == "" || r.system.DatabaseURL == "" {
		r.progress.printf("without pgbench and a database for it there are no baselines, so no ratios\n")
	} else if r.baseline, err = pgbench.New(ctx, r.system.PGBench, r.system.DatabaseURL, r.options.Items); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}

	r.progress.printf("making %d items\n", r.options.Items)

	return r.counters.create(ctx, r.system.Replicas)
}

// rounds runs every scenario once per round, so that all of them share the machine's good and bad minutes.
func (r *runner) rounds(ctx context.Context, report *Report) error {
	var inexact error

	for round := range r.options.Runs {
		for i, s := range r.options.scenarios() {
			if s.kind == kindBaseline && r.baseline == nil {
				continue
			}

			r.progress.printf("round %d/%d  %-44s ", round+1, r.options.Runs, s.title)

			run, err := r.run(ctx, s)
			if err != nil {
				r.progress.printf("failed\n")

				return errors.Join(fmt.Errorf("%s: %w", s.name, err), inexact)
			}

			r.progress.printf("%10s/s  %s\n", thousands(run.PerSecond), remarks(run))

			if run.Sum != nil && !run.Sum.Holds() {
				inexact = errors.Join(inexact, fmt.Errorf("%w: %s, round %d: %+v", ErrNotExact, s.name, round+1, *run.Sum))
			}

			report.Scenarios[i].Runs = append(report.Scenarios[i].Runs, run)
		}
	}

	return inexact
}

func (r *runner) run(ctx context.Context, s scenario) (Run, error) {
	if s.kind == kindBaseline {
		return r.runBaseline(ctx, s)
	}

	before, err := r.counters.sum(ctx)
	if err != nil {
		return Run{}, err
	}

	cfg := load.Config{
		Targets: r.system.Replicas[:s.replicas], Requests: r.counters.increases(s.hot), Connections: r.options.Connections,
		Warmup: r.options.Warmup, Duration: r.options.Duration, Seed: uint64(time.Now().UnixNano()),
	}
	if s.kind == kindOpen {
		cfg.Rate, cfg.Duration = r.options.Rate, r.options.OpenDuration
	}

	result, seen, err := r.drive(ctx, cfg, s)
	if err != nil {
		return Run{}, err
	}

	after, err := r.counters.sum(ctx)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.Sum = &SumCheck{Tally: result.Tally, Gained: after - before}

	if s.kind == kindOpen {
		lateness := latencyOf(result.Lateness)
		run.Lateness = &lateness
	}

	return run, nil
}

// drive loads the system and watches its processes meanwhile.
func (r *runner) drive(ctx context.Context, cfg load.Config, s scenario) (*load.Result, observation, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()

	var pids []int
	if len(r.system.PIDs) >= s.replicas {
		pids = r.system.PIDs[:s.replicas]
	}

	observed := make(chan observation, 1)

	go func() { observed <- observe(watch, pids, r.system.DatabasePID, cfg.Warmup, cfg.Duration) }()

	result, err := load.Run(ctx, cfg)
	if err != nil {
		stop()
		<-observed

		return nil, observation{}, fmt.Errorf("drive the load: %w", err)
	}

	return result, <-observed, nil
}

func (r *runner) runBaseline(ctx context.Context, s scenario) (Run, error) {
	target := pgbench.Uniform
	if s.hot {
		target = pgbench.OneRow
	}

	result, err := r.baseline.Run(ctx, target, r.options.Duration)
	if err != nil {
		return Run{}, fmt.Errorf("run the baseline: %w", err)
	}

	return Run{Summary: Summary{PerSecond: result.TPS, Errors: result.Failed, Latency: Latency{Mean: result.Latency}}}, nil
}

func runOf(result *load.Result, seen observation) Run {
	run := Run{
		Summary: Summary{
			PerSecond: result.Throughput(), Errors: result.Errors(), Latency: latencyOf(result.Latency),
			CPU: CPU{Client: result.CPUPerRequest()},
		},
		Statuses: result.Statuses, Failures: result.Failures, Redials: result.Redials,
		Curve: curveOf(result.Latency), Memory: seen.memory,
	}

	if requests := result.Succeeded + result.Errors(); requests > 0 {
		run.CPU.Replicas = seen.replicas / time.Duration(requests)
		run.CPU.PostgreSQL = seen.database / time.Duration(requests)
	}

	if capacity := result.Window * time.Duration(runtime.NumCPU()); seen.replicas > 0 && seen.database > 0 && capacity > 0 {
		others := seen.machine - seen.replicas - seen.database - result.CPU
		run.Others = max(0, float64(others)/float64(capacity))
	}

	return run
}
