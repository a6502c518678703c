package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// ErrNotExact reports that the database does not hold what was acknowledged. Unlike a missed bar this is a failure of
// the service.
var ErrNotExact = errors.New("what is in the database does not add up to what was acknowledged")

// suite holds what is particular to the bench of one service.
type suite struct {
	// prepare makes what the scenarios need. The system runs by then.
	prepare func(ctx context.Context, r *runner) error
	// scenarios stand in the order of a round, each baseline right before what is compared with it.
	scenarios []scenario
	bars      []bar
}

// scenario is one way to load the system. One of pgbench, drive and run is set.
type scenario struct {
	name, title string
	// baseline names the scenario that this one is compared with; empty for none.
	baseline string
	// replicas is how many of the service's replicas are driven.
	replicas int
	// maria says that it is left out where there is no MariaDB server.
	maria bool

	pgbench func() string // returns the script
	drive   func(r *runner) drive
	run     func(ctx context.Context, r *runner) (Result, error)
}

// drive says how replicas are loaded, and what must come of it.
type drive struct {
	// Config is the load; Targets, Connections, Warmup and Duration have the options' values where they are zero.
	load.Config

	// environ is that of replicas that run for this run alone and are driven instead of the service's own.
	environ map[string]string
	// once sends every request one time instead of drawing from them for the duration.
	once bool
	// items is how many items a request is about, for the figure and the check; 0 means 1.
	items int64
	// state reads the number that grows by the items of every acknowledged request; nil for reads.
	state func(ctx context.Context) (int64, error)
	// replay says that acknowledged requests must not change the state.
	replay bool
}

// runner holds what the runs of one bench share.
type runner struct {
	system  *system
	options Options
}

// Run starts a private PostgreSQL server and replicas of the service, runs the scenarios of the options, and stops
// everything. At the end of ctx the measurement ends; at the end of hurry, which outlives ctx, what has not stopped by
// then is killed. The report is returned with an error, too, as far as it got; the error is [ErrNotExact] when a sum
// did not hold after all runs.
func Run(ctx, hurry context.Context, o Options, h Host) (report *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	chosen := suites()[o.Service](o).only(o.Only)
	s := &system{host: h}
	defer func() { err = errors.Join(err, s.stop(hurry)) }()
	if err := s.start(ctx, hurry, o, chosen.replicas()); err != nil {
		return nil, err
	}
	return measure(ctx, s, o, chosen)
}

// only returns the suite with the scenarios of these names, with all when there are none.
func (s suite) only(names []string) suite {
	if len(names) > 0 {
		s.scenarios = slices.DeleteFunc(s.scenarios, func(one scenario) bool { return !slices.Contains(names, one.name) })
	}
	return s
}

// replicas returns how many replicas must run for all scenarios.
func (s suite) replicas() int {
	needed := 1
	for _, one := range s.scenarios {
		needed = max(needed, one.replicas)
	}
	return needed
}

// measure runs the scenarios on a running system.
func measure(ctx context.Context, s *system, o Options, chosen suite) (*Report, error) {
	// One thread of Go code drives the load with a third less CPU than two: the second would mostly spin in search of
	// work, on cores that the servers need.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := &runner{system: s, options: o}
	report := &Report{Started: time.Now().UTC(), Version: lifecycle.Version(), Options: o, Machine: s.machine}
	if err := chosen.prepare(ctx, r); err != nil {
		return nil, err
	}
	for _, one := range chosen.scenarios {
		report.Scenarios = append(report.Scenarios, Series{Name: one.name, Title: one.title, Baseline: one.baseline})
	}
	err := r.rounds(ctx, chosen.scenarios, report)
	report.summarize()
	report.judge(chosen.bars)
	return report, err
}

// printf writes progress. A line that cannot be written does not end a measurement of minutes.
func (r *runner) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.system.host.Progress, format, args...)
}

// rounds runs every scenario once per round, so that all of them share the machine's good and bad minutes.
func (r *runner) rounds(ctx context.Context, scenarios []scenario, report *Report) error {
	var inexact error
	for round := range r.options.Runs {
		for i, s := range scenarios {
			if s.pgbench != nil && r.system.pgbench == "" || s.maria && r.system.maria == nil {
				continue
			}
			r.printf("round %d/%d  %-44s ", round+1, r.options.Runs, s.title)
			run, err := r.run(ctx, s)
			if err != nil {
				r.printf("failed\n")
				return errors.Join(fmt.Errorf("%s: %w", s.name, err), inexact)
			}
			r.printf("%10s/s  %s\n", format(perSecond, run.Figures[perSecond]), remarks(run))
			if run.Sum != nil && !run.Sum.Holds() {
				inexact = errors.Join(inexact, fmt.Errorf("%w: %s, round %d: %+v", ErrNotExact, s.name, round+1, *run.Sum))
			}
			report.Scenarios[i].Runs = append(report.Scenarios[i].Runs, run)
		}
	}
	return inexact
}

// run runs a scenario one time.
func (r *runner) run(ctx context.Context, s scenario) (Result, error) {
	switch {
	case s.pgbench != nil:
		result, err := pgbench.Run(ctx, r.system.pgbench, r.system.url, s.pgbench(), r.options.Duration)
		if err != nil {
			return Result{}, fmt.Errorf("run the baseline: %w", err)
		}
		return Result{Figures: Figures{perSecond: result.TPS, errorCount: float64(result.Failed)}}, nil
	case s.drive != nil:
		return r.load(ctx, s.replicas, s.drive(r))
	default:
		return s.run(ctx, r)
	}
}

// load drives replicas, watches the processes meanwhile, and checks what must come of it.
func (r *runner) load(ctx context.Context, replicas int, d drive) (run Result, err error) {
	driven := r.system.fleet
	if d.environ != nil {
		set, err := r.system.run(ctx, local.Spec{Environ: d.environ}, replicas)
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, set.Stop(context.WithoutCancel(ctx))) }()
		driven = fleetOf(set)
	}
	driven.api, driven.pids = driven.api[:replicas], driven.pids[:replicas]
	before, spansBefore := int64(0), r.system.sink.Count()
	if d.state != nil {
		if before, err = d.state(ctx); err != nil {
			return Result{}, err
		}
	}
	result, seen, err := r.drive(ctx, d, driven)
	if err != nil {
		return Result{}, fmt.Errorf("drive the load: %w", err)
	}
	run = runOf(result, seen)
	run.Figures[perSecond] *= float64(max(d.items, 1))
	if d.Rate > 0 {
		run.Figures[lateP99] = toMS(result.Lateness.ValueAtPercentile(99))
	}
	if r.options.Trace {
		run.Figures[spans] = float64(r.system.sink.Count() - spansBefore)
	}
	if d.state != nil {
		after, err := d.state(ctx)
		if err != nil {
			return Result{}, err
		}
		run.check(d.expect(result.Tally), after-before)
	}
	return run, nil
}

// unbounded is longer than any run.
const unbounded = time.Hour

// drive sends the requests and watches the processes meanwhile.
func (r *runner) drive(ctx context.Context, d drive, driven fleet) (*load.Result, observation, error) {
	cfg := d.Config
	cfg.Targets, cfg.Warmup = driven.api, r.options.Warmup
	if cfg.Connections == 0 {
		cfg.Connections = r.options.Connections
	}
	if cfg.Duration == 0 {
		cfg.Duration = r.options.Duration
	}
	send := load.Run
	if d.once { // the run is over when everything is sent
		send, cfg.Warmup, cfg.Duration = load.Once, 0, unbounded
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	observed := make(chan observation, 1)
	go func() { observed <- observe(watch, driven.pids, r.system.databasePID, cfg.Warmup, cfg.Duration) }()
	result, err := send(ctx, cfg)
	stop() // where the run was shorter than the window
	return result, <-observed, err
}

// expect returns how the state may grow after these requests.
func (d drive) expect(tally load.Tally) load.Tally {
	items := max(d.items, 1)
	if d.replay {
		items = 0
	}
	tally.Acknowledged *= items
	tally.Unknown *= items
	return tally
}

// SumCheck compares what the database gained in a run with what was acknowledged to the generator.
type SumCheck struct {
	load.Tally

	// Gained is how much the state grew.
	Gained int64 `json:"gained"`
}

// Holds reports whether every acknowledged change is there once, no refused one is, and nothing else but unknown ones
// can be.
func (s SumCheck) Holds() bool {
	return s.Acknowledged <= s.Gained && s.Gained <= s.Acknowledged+s.Unknown
}

// check compares what the state gained with what was acknowledged.
func (r *Result) check(tally load.Tally, gained int64) {
	r.Sum = &SumCheck{Tally: tally, Gained: gained}
	r.Figures[lostChanges] = float64(max(0, tally.Acknowledged-gained))
}

// request returns the bytes of an HTTP request. The headers end with a line break each.
func request(method, path, headers, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: bench\r\n%sContent-Length: %d\r\n\r\n%s",
		method, path, headers, len(body), body)
}

const jsonHeader = "Content-Type: application/json\r\n"

// replicas names a number of replicas.
func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}
