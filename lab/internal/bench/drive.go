package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
)

// drive says how replicas are loaded, and what the result must be.
type drive struct {
	// Config is the load; Targets, Connections, Warmup and Duration have the options' values where they are zero.
	load.Config

	// replicas is how many replicas are driven, at most one for each connection.
	replicas int
	// environ is set for replicas that run for this run alone and are driven instead of the service's own.
	environ map[string]string
	// peer is driven instead of the replicas.
	peer *local.Status
	// once says that Next ends the run.
	once bool
	// items is how many items a request is about, for the figure and the check; 0 means 1.
	items int64
	// state reads the number that grows by the items of every acknowledged request; nil for reads.
	state func(ctx context.Context) (int64, error)
	// replay says that acknowledged requests must not change the state.
	replay bool
	// size is the query for the MiB of the tables that must not grow; empty for none.
	size string
}

// driving returns a run of a load.
func (r *runner) driving(next func() drive) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) { return r.load(ctx, next()) }
}

// load drives replicas, watches the processes during it, and checks the result.
func (r *runner) load(ctx context.Context, d drive) (run Result, err error) {
	driven := r.replicas
	switch {
	case d.peer != nil:
		driven = []local.Status{*d.peer}
	case d.environ != nil:
		set, startErr := r.launch(ctx, local.Spec{Environ: d.environ}, d.replicas)
		if startErr != nil {
			return Result{}, startErr
		}
		defer func() { err = errors.Join(err, set.Stop(context.WithoutCancel(ctx))) }()
		driven = set.Statuses()
	}
	d.Connections = cmp.Or(d.Connections, r.connections)
	driven = driven[:min(d.replicas, d.Connections)]
	var pids []int
	for _, replica := range driven {
		d.Targets, pids = append(d.Targets, replica.API), append(pids, replica.PID)
	}
	if !d.once {
		d.Duration = cmp.Or(d.Duration, r.Duration)
		d.Warmup = cmp.Or(d.Warmup, min(d.Duration, r.Duration)/warmupShare)
	}
	before, err := d.read(ctx)
	if err != nil {
		return Result{}, err
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	observed := make(chan Figures, 1)
	go func() {
		observed <- observe(watch, func() Figures { return r.used(ctx, pids, d.size) }, d.Warmup, d.Duration)
	}()
	result, err := load.Run(ctx, d.Config)
	if err != nil {
		return Result{}, fmt.Errorf("drive the load: %w", err)
	}
	stop() // where the run was shorter than the window
	run = runOf(result, <-observed)
	items := max(d.items, 1)
	run.Figures[perSecond] *= float64(items)

	after, err := d.read(ctx)
	if d.state != nil {
		if d.replay {
			items = 0
		}
		run.check(result.Tally, items, after-before)
	}
	return run, err
}

// read reads the state, 0 where there is none.
func (d drive) read(ctx context.Context) (int64, error) {
	if d.state == nil {
		return 0, nil
	}
	return d.state(ctx)
}

// SumCheck compares what the database gained in a run with what was acknowledged to the generator.
type SumCheck struct {
	load.Tally

	// Gained is how much the state grew.
	Gained int64
}

// Holds reports whether every acknowledged change is there once, no refused one is, and nothing else but unknown ones.
func (s SumCheck) Holds() bool {
	return s.Acknowledged <= s.Gained && s.Gained <= s.Acknowledged+s.Unknown
}

// check compares what the state gained with the items of the requests that were acknowledged.
func (r *Result) check(tally load.Tally, items, gained int64) {
	tally.Acknowledged *= items
	tally.Unknown *= items
	r.Sum = &SumCheck{Tally: tally, Gained: gained}
	r.Figures[lostChanges] = float64(max(0, tally.Acknowledged-gained))
}

// request returns the bytes of an HTTP request. The headers end with a line break each.
func request(method, path, headers, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: bench\r\n%sContent-Length: %d\r\n\r\n%s",
		method, path, headers, len(body), body)
}

const jsonHeader = "Content-Type: application/json\r\n"

// Sweep names the scenarios of the sweep among [Options.Only].
const Sweep = "sweep"

// sweepRun is the measured part of each run of a sweep, at most: its figures show a course, and no bar is judged by
// them.
const sweepRun = 1500 * time.Millisecond

// series measures one thing with a growing number of callers.
type series struct {
	// name labels the line in the plot.
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
