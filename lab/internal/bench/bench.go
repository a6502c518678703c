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

// ErrNotExact says that the database does not hold what was acknowledged. Unlike a missed bar this is a failure of the service.
var ErrNotExact = errors.New("what is in the database does not add up to what was acknowledged")

// runner holds what the runs of one bench share.
type runner struct {
	system   System
	options  Options
	workload workload
	baseline *pgbench.Bench // nil without pgbench
	progress progress
}

// workload is what is particular to a service.
type workload interface {
	// prepare makes what the runs need, the baseline included where there is pgbench.
	prepare(ctx context.Context, r *runner) error
	// runBaseline is one run of pgbench.
	runBaseline(ctx context.Context, r *runner, s scenario) (pgbench.Result, error)
	// run is one run of a scenario of the service.
	run(ctx context.Context, r *runner, s scenario) (Run, error)
}

// Counts measures the counts service. Progress goes to w line by line. The report is returned with an error, too, as far as it got; the
// error is [ErrNotExact] when a sum did not hold after all runs.
func Counts(ctx context.Context, system System, options Options, w io.Writer) (*Report, error) {
	return measure(ctx, system, options, w, serviceCounts, func() workload { return newCounters(system.Replicas[0], options.Items) })
}

// Payments measures the payments service, as [Counts] does counts. Start from [PaymentsDefaults].
func Payments(ctx context.Context, system System, options Options, w io.Writer) (*Report, error) {
	options.service = servicePayments

	return measure(ctx, system, options, w, servicePayments, func() workload { return newPayer() })
}

// Events measures the events service, as [Counts] does counts. Start from [EventsDefaults].
func Events(ctx context.Context, system System, options Options, w io.Writer) (report *Report, err error) {
	options.service = serviceEvents
	if system.Events == nil {
		return nil, errors.New("the bench of events needs a lab of its own")
	}

	e := newEventful(system.Events, options)
	defer func() { err = errors.Join(err, e.close(context.WithoutCancel(ctx))) }()

	return measure(ctx, system, options, w, serviceEvents, func() workload { return e })
}

// Iidy measures the iidy service, as [Counts] does counts. Start from [IidyDefaults]. Its figures are items a second, not requests.
func Iidy(ctx context.Context, system System, options Options, w io.Writer) (*Report, error) {
	options.service = serviceIidy

	return measure(ctx, system, options, w, serviceIidy, func() workload { return newLists(system.Replicas[0], options.Items) })
}

// Pyggpot measures the pyggpot service, as [Counts] does counts. Start from [PyggpotDefaults].
func Pyggpot(ctx context.Context, system System, options Options, w io.Writer) (*Report, error) {
	options.service = servicePyggpot

	return measure(ctx, system, options, w, servicePyggpot, func() workload { return newSaver(system.Replicas[0], options.Items) })
}

func measure(
	ctx context.Context, system System, options Options, w io.Writer, service string, open func() workload,
) (*Report, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}

	if needed := options.ReplicasNeeded(); len(system.Replicas) < needed {
		return nil, fmt.Errorf("the scenarios need %s, %d run", replicas(needed), len(system.Replicas))
	}

	if options.Trace && (len(system.Traced) != len(TraceScenarios()) || system.Spans == nil) {
		return nil, errors.New("the bench of tracing needs replicas that trace, and a receiver")
	}

	// One thread of Go code drives the load with a third less CPU than two: the second would mostly spin in search of work, on cores
	// that the servers need.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))

	r := &runner{system: system, options: options, workload: open(), progress: progress{w: w}}

	report := &Report{Service: service, Started: time.Now().UTC(), Version: lifecycle.Version(), Options: options}

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

	if !r.hasPGBench() {
		r.progress.printf("without pgbench and a database for it there are no baselines, so no ratios\n")
	}

	return r.workload.prepare(ctx, r)
}

func (r *runner) hasPGBench() bool { return r.system.PGBench != "" && r.system.DatabaseURL != "" }

// rounds runs every scenario once per round, so that all of them share the machine's good and bad minutes.
func (r *runner) rounds(ctx context.Context, report *Report) error {
	var inexact error

	for round := range r.options.Runs {
		for i, s := range r.options.scenarios() {
			if s.kind == kindBaseline && r.baseline == nil {
				continue
			}

			if choosy, ok := r.workload.(interface{ skip(s scenario) bool }); ok && choosy.skip(s) {
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

	return r.workload.run(ctx, r, s)
}

// fleet is whom a scenario drives.
func (r *runner) fleet(s scenario) Fleet {
	if own, ok := r.system.Traced[s.name]; ok {
		return own
	}

	return Fleet{Replicas: r.system.Replicas, PIDs: r.system.PIDs}
}

// config is that of a saturating run of the scenario.
func (r *runner) config(s scenario, requests [][]byte) load.Config {
	return load.Config{
		Targets: r.fleet(s).Replicas[:s.replicas], Requests: requests, Connections: r.options.Connections,
		Warmup: r.options.Warmup, Duration: r.options.Duration,
	}
}

// drive loads the system by send and watches its processes meanwhile.
func (r *runner) drive(
	ctx context.Context, cfg load.Config, s scenario, send func(context.Context, load.Config) (*load.Result, error),
) (*load.Result, observation, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()

	var pids []int
	if all := r.fleet(s).PIDs; len(all) >= s.replicas {
		pids = all[:s.replicas]
	}

	observed := make(chan observation, 1)

	go func() { observed <- observe(watch, pids, r.system.DatabasePID, cfg.Warmup, cfg.Duration) }()

	result, err := send(ctx, cfg)

	stop() // where the run was shorter than the window

	seen := <-observed

	if err != nil {
		return nil, observation{}, fmt.Errorf("drive the load: %w", err)
	}

	return result, seen, nil
}

func (r *runner) runBaseline(ctx context.Context, s scenario) (Run, error) {
	result, err := r.workload.runBaseline(ctx, r, s)
	if err != nil {
		return Run{}, fmt.Errorf("run the baseline: %w", err)
	}

	return Run{Summary: Summary{PerSecond: result.TPS, Errors: result.Failed, Latency: Latency{Mean: result.Latency}}}, nil
}

func runOf(result *load.Result, seen observation) Run {
	run := Run{
		Summary: Summary{
			PerSecond: result.Throughput(), Errors: result.Errors(), Latency: latencyOf(result.Latency),
		},
		Statuses: result.Statuses, Failures: result.Failures,
		Curve: curveOf(result.Latency), Memory: seen.memory,
	}

	if requests := result.Succeeded + result.Errors(); requests > 0 {
		run.CPU.Client = seen.client / time.Duration(requests)
		run.CPU.Replicas = seen.replicas / time.Duration(requests)
		run.CPU.PostgreSQL = seen.database / time.Duration(requests)
	}

	if capacity := result.Window * time.Duration(runtime.NumCPU()); seen.replicas > 0 && seen.database > 0 && capacity > 0 {
		others := seen.machine - seen.replicas - seen.database - seen.client
		run.Others = max(0, float64(others)/float64(capacity))
	}

	return run
}
