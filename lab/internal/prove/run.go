package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
)

// Options say how a run goes.
type Options struct {
	Seed    uint64
	Windows []Window
	// Clients of each service.
	Clients int
	// Pictures is the folder for the checker's pictures of violations.
	Pictures string
	// Say gets the progress, a line at a time.
	Say func(format string, args ...any)
	// Enough ends the run early, after a window; nil never does.
	Enough func(r *Report) bool
}

// prover holds the state of a run.
type prover struct {
	rig     *rig
	options Options
	report  *Report
	start   time.Time
	windows int

	idle   map[*subject]float64 // goroutines of an idle replica, the most of any
	memory map[*subject]float64 // of the largest replica after the window without faults; nil before
}

// Run runs the windows one after the other and returns what was found. An error means
// that the run itself failed; the report has what was found before.
func Run(ctx context.Context, s System, o Options) (report *Report, err error) {
	report = &Report{Seed: o.Seed, Replicas: s.Replicas, Started: time.Now().UTC()}
	p := &prover{options: o, report: report, start: time.Now()}
	defer func() {
		if p.rig != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			err = errors.Join(err, p.rig.close(closing))
		}
		report.Took = time.Since(p.start)
		if err != nil {
			report.Broken = err.Error()
		}
	}()
	if p.rig, err = newRig(ctx, s); err != nil {
		return report, err
	}
	if err := p.rig.start(ctx, false); err != nil {
		return report, err
	}
	if err := p.baseline(ctx); err != nil {
		return report, err
	}
	for _, w := range o.Windows {
		result, err := p.window(ctx, w)
		if err != nil {
			return report, fmt.Errorf("window %s: %w", w.Name, err)
		}
		if missed := result.missed(); missed != "" {
			o.Say("%-10s the fault had no effect (%s): repeated with a double dose", w.Name, missed)
			if result, err = p.window(ctx, w.doubled(o.Seed)); err != nil {
				return report, fmt.Errorf("window %s, repeated: %w", w.Name, err)
			}
			result.Repeated = true
		}
		report.Windows = append(report.Windows, result)
		o.Say("%s", result.lines())
		if o.Enough != nil && o.Enough(report) {
			return report, nil
		}
	}
	report.After = p.leaks(ctx)
	return report, nil
}

// trial is one service in one window.
type trial struct {
	*subject

	work     Workload
	history  *history.History
	before   readings
	recovery time.Duration
}

// window runs one window and checks what came of it.
func (p *prover) window(ctx context.Context, w Window) (*WindowResult, error) {
	if w.shape.pooler != (p.rig.injector.Pooler != nil) {
		if err := errors.Join(p.rig.stop(ctx), p.rig.start(ctx, w.shape.pooler)); err != nil {
			return nil, err
		}
	}
	p.windows++
	before, err := p.deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	var trials []*trial
	for _, s := range p.rig.subjects {
		if s.Maria != nil && !w.shape.maria {
			continue
		}
		t := &trial{subject: s, history: history.New(p.start), before: s.read(ctx)}
		kind := kinds()[s.Name]
		t.work, err = kind.workload(site{
			url: "http://" + s.listener.Addr().String(), client: s.client, history: t.history,
			prefix: fmt.Sprintf("%s%d", w.Name, p.windows), prepared: kind.prepare != nil,
		})
		if err != nil {
			return nil, err
		}
		s.Lock = t.work.Lock
		s.Begin()
		trials = append(trials, t)
	}
	result := &WindowResult{Window: w, From: time.Since(p.start)}
	p.options.Say("%-10s starts: %d faults in %s", w.Name, len(w.Events), round(w.For))
	stopLoad := p.load(ctx, trials)
	failed := p.inject(ctx, w, trials)
	result.To = time.Since(p.start)
	stopLoad()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	if failed != nil {
		return nil, failed
	}
	after, err := p.deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	result.Deadlocks = after - before
	for _, t := range trials {
		one, err := p.judge(ctx, t, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		result.Services = append(result.Services, one)
	}
	if w.Name == windowNone {
		p.memory = map[*subject]float64{}
		for _, s := range p.rig.subjects {
			p.memory[s] = s.most(ctx, residentMemory)
		}
	}
	return result, nil
}

// load runs the clients until the function that it returns is called, which waits for
// their last answers.
func (p *prover) load(ctx context.Context, trials []*trial) (stop func()) {
	const longestPause = 40 * time.Millisecond // between two operations of a client
	ctx, cancel := context.WithCancel(ctx)
	whole := context.WithoutCancel(ctx) // an operation that has started gets its answer
	var wg sync.WaitGroup
	for i, t := range trials {
		for client := range p.options.Clients {
			random := newRandom(p.options.Seed, uint64(p.windows), uint64(i), uint64(client))
			wg.Go(func() {
				for ctx.Err() == nil {
					t.work.Step(whole, client, random)
					pause(ctx, time.Duration(random.Int64N(int64(longestPause)+1)))
				}
			})
		}
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// inject carries the schedule out, heals, and measures how long every service takes
// until it answers.
func (p *prover) inject(ctx context.Context, w Window, trials []*trial) (failed error) {
	targets := make([]*fault.Target, len(trials))
	for i, t := range trials {
		targets[i] = t.Target
	}
	begin := time.Now()
	for _, e := range w.Events {
		if !pause(ctx, e.At-time.Since(begin)) {
			break
		}
		failed = errors.Join(failed, p.rig.injector.Inject(ctx, e, targets))
	}
	pause(ctx, w.For-quiet-time.Since(begin))
	failed = errors.Join(failed, p.rig.injector.Heal(ctx, targets))
	healed := time.Now()
	var group errgroup.Group
	for _, t := range trials {
		group.Go(func() error {
			const giveUp = 15 * time.Second
			for t.work.Probe(ctx) != nil && time.Since(healed) < giveUp && ctx.Err() == nil {
				pause(ctx, 10*time.Millisecond)
			}
			t.recovery = time.Since(healed)
			return nil
		})
	}
	_ = group.Wait() // the times are in the trials
	pause(ctx, w.For-time.Since(begin))
	return failed
}

// judge settles and checks one service after a window.
func (p *prover) judge(ctx context.Context, t *trial, w Window) (ServiceResult, error) {
	flips, signs := t.read(ctx).since(t.before)
	result := ServiceResult{Service: t.Name, Recovery: t.recovery, Done: t.Done(), Signs: signs}
	settled := "everything"
	err := t.work.Settle(ctx)
	if err != nil {
		settled = err.Error()
	}
	checks := []Check{check("settled", err == nil, "%s", settled)}
	found, err := t.work.Check(ctx, t.db, p.options.Pictures)
	if err != nil {
		return result, err
	}
	maps.Copy(result.Signs, found.Signs)
	result.summarize(t.history.Ops())
	result.Checks = slices.Concat(found.Checks, checks, w.judge(result, flips))
	result.Effects = w.judgeEffects(result)
	return result, nil
}

// deadlocks reads how many the server has counted in the services' database. A server
// that was restarted counts anew; only the window without faults is checked.
func (p *prover) deadlocks(ctx context.Context) (n int64, err error) {
	err = p.rig.injector.DB.GetContext(ctx, &n,
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	if err != nil {
		return 0, fmt.Errorf("read the deadlocks: %w", err)
	}
	return n, nil
}

// pause waits; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
