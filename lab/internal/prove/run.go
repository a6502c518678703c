package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Options say how a run goes.
type Options struct {
	Seed    uint64
	Windows []Window
	// Clients of each service.
	Clients int
	// Pace is what a client waits between two operations at the most.
	Pace time.Duration
	// Pictures is the folder for the checker's pictures of violations.
	Pictures string
	// Say is told how it goes, a line at a time.
	Say func(format string, args ...any)
	// Live is told what goes on in a window, once a second; nil where nobody looks.
	Live func(line string)
	// Enough ends the run early, after a window; nil never does.
	Enough func(r *Report) bool
}

// liveness is what may pass from the end of the faults until every service answers.
const liveness = 2 * time.Second

// Run breaks the system window by window and returns the verdict. An error means
// that the run itself failed; what it had found by then is in the report.
func Run(ctx context.Context, s System, o Options) (report *Report, err error) {
	report = &Report{Seed: o.Seed, Replicas: s.Replicas, Started: time.Now().UTC(), Server: s.Name, Notes: s.Notes, Uncounted: s.Uncounted}
	r, err := newRig(ctx, s)
	if err != nil {
		report.Broken = err.Error()
		return report, err
	}
	p := &prover{rig: r, options: o, report: report, start: time.Now()}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, r.close(closing))
		report.Took = time.Since(p.start)
		if err != nil {
			report.Broken = err.Error()
		}
	}()
	if err := r.start(ctx, false); err != nil {
		return report, err
	}
	if err := p.baseline(ctx); err != nil {
		return report, err
	}
	for _, w := range o.Windows {
		out, all := r.leftOut(w)
		if all {
			result := w.omit(out, time.Since(p.start))
			report.Windows = append(report.Windows, result)
			o.Say("%s", result.line())
			continue
		}
		result, err := p.window(ctx, w)
		if err != nil {
			return report, fmt.Errorf("window %s: %w", w.Name, err)
		}
		if missed := result.missed(); missed != "" {
			o.Say("%-10s the fault had no effect (%s): once more with a double dose", w.Name, missed)
			if result, err = p.window(ctx, w.again(o.Seed)); err != nil {
				return report, fmt.Errorf("window %s again: %w", w.Name, err)
			}
			result.Repeated = true
		}
		result.LeftOut = out
		report.Windows = append(report.Windows, result)
		o.Say("%s", result.line())
		if o.Enough != nil && o.Enough(report) {
			return report, nil
		}
	}
	report.After = p.leaks(ctx)
	return report, nil
}

// prover is a run in progress.
type prover struct {
	rig     *rig
	options Options
	report  *Report
	start   time.Time
	windows int

	idle   map[*column]int     // goroutines of an idle replica, the most that any had
	memory map[*column]float64 // of the largest replica after the window without faults; nil before
}

// window breaks the system in one way and judges what came of it.
func (p *prover) window(ctx context.Context, w Window) (*WindowResult, error) {
	if w.Pooler != (p.rig.pooler != nil) {
		if err := errors.Join(p.rig.stop(ctx), p.rig.start(ctx, w.Pooler)); err != nil {
			return nil, err
		}
	}
	p.windows++
	deadlocks, err := p.deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	result := &WindowResult{Window: w, From: time.Since(p.start)}
	work, histories, cuts := map[*column]Workload{}, map[*column]*History{}, map[*column]int{}
	for _, c := range p.rig.columns {
		if !w.takesPart(c) {
			continue
		}
		histories[c] = NewHistory(p.start)
		work[c] = kinds()[c.service.Name](c.caller, histories[c], fmt.Sprintf("%s%d", w.Name, p.windows))
		c.mu.Lock()
		c.done = map[Action]int{}
		c.mu.Unlock()
		if c.proxy != nil {
			cuts[c] = c.proxy.Cuts()
		}
	}
	counted, flips := p.counted(ctx), p.flips()

	p.options.Say("%-10s begins: %d faults in %s", w.Name, len(w.Events), round(w.For))
	stopLoad, stopLive := p.load(ctx, work), p.live(ctx, w, histories)
	recovery, failures := p.faults(ctx, w, work)
	result.To = time.Since(p.start)
	stopLoad()
	stopLive()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	if failures != nil {
		return nil, failures
	}
	after, err := p.deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	recounted := p.counted(ctx)
	for _, c := range p.rig.columns {
		if work[c] == nil {
			continue
		}
		if c.proxy != nil {
			c.note(CutReply, c.proxy.Cuts()-cuts[c])
		}
		column, err := p.judge(ctx, c, w, work[c], histories[c], signs(counted[c], recounted[c]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.service.Name, err)
		}
		column.Recovery = recovery[c]
		column.Checks = append(column.Checks, w.readiness(column, c.flips(flips)),
			check("live", recovery[c] <= liveness, "answers %s after the faults", round(recovery[c])))
		result.Columns = append(result.Columns, column)
	}
	result.Deadlocks = after - deadlocks
	if w.Name == windowNone {
		p.memory = p.resident(ctx)
	}
	return result, nil
}

// load runs the clients until the function that it returns is called, which waits
// for their last answers.
func (p *prover) load(ctx context.Context, work map[*column]Workload) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	whole := context.WithoutCancel(ctx) // what was begun is brought to an end
	var wg sync.WaitGroup
	for i, c := range p.rig.columns {
		if work[c] == nil {
			continue
		}
		for client := range p.options.Clients {
			random := newRandom(p.options.Seed, uint64(p.windows), uint64(i), uint64(client))
			wg.Go(func() {
				for ctx.Err() == nil {
					work[c].Step(whole, client, random)
					pause(ctx, time.Duration(random.Int64N(int64(p.options.Pace)+1)))
				}
			})
		}
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// faults carries the schedule out, heals, and measures how long it takes until
// every service answers.
func (p *prover) faults(ctx context.Context, w Window, work map[*column]Workload) (map[*column]time.Duration, error) {
	begin := time.Now()
	var failures error
	for _, e := range w.Events {
		if !pause(ctx, e.At-time.Since(begin)) {
			break
		}
		failures = errors.Join(failures, p.rig.act(ctx, e, work))
	}
	pause(ctx, w.For-quiet-time.Since(begin))
	failures = errors.Join(failures, p.rig.heal(ctx))
	healed := time.Now()
	recovery := map[*column]time.Duration{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c, one := range work {
		wg.Go(func() {
			const patience = 15 * time.Second
			for one.Probe(ctx) != nil && time.Since(healed) < patience && pause(ctx, 10*time.Millisecond) { //nolint:revive // the probe is the work
			}
			mu.Lock()
			defer mu.Unlock()
			recovery[c] = time.Since(healed)
		})
	}
	wg.Wait()
	pause(ctx, w.For-time.Since(begin))
	return recovery, failures
}

// judge settles and checks one service after a window.
func (p *prover) judge(
	ctx context.Context, c *column, w Window, work Workload, h *History, counted map[string]int,
) (ColumnResult, error) {
	result := ColumnResult{Service: c.service.Name, Signs: counted}
	settled := work.Settle(ctx)
	var err error
	reader := p.rig.reader
	if c.maria != nil {
		reader = c.maria.reader
	}
	result.Checks, err = work.Check(ctx, reader, p.options.Pictures)
	if err != nil {
		return result, err
	}
	result.Checks = append(result.Checks, check("settled", settled == nil, "%v", orNothing(settled)))
	maps.Copy(result.Signs, work.Signs())
	ops := h.Ops()
	result.count(ops)
	result.timeline(ops)
	c.mu.Lock()
	defer c.mu.Unlock()
	result.Done = maps.Clone(c.done)
	result.Checks = append(result.Checks, w.demands(result)...)
	result.Sometimes = w.sometimes(result)
	return result, nil
}

func orNothing(err error) string {
	if err == nil {
		return "everything"
	}
	return err.Error()
}

func (p *prover) deadlocks(ctx context.Context) (n int64, err error) {
	// The statistics of a server that was restarted begin anew; what counts is the window without faults.
	err = p.rig.reader.GetContext(ctx, &n, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	if err != nil {
		return 0, fmt.Errorf("read the deadlocks: %w", err)
	}
	return n, nil
}

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

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
