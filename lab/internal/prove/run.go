package prove

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/platform/localpg"
)

// Setup describes a run: what it injects faults into, and how it goes.
type Setup struct {
	// Admin is the URL of the services' database for a role that administers it and theirs.
	Admin string
	// Server is the database's server; nil when others use it too, or when there are several.
	Server *localpg.Server
	// Cluster runs the database's servers where there are several. Admin and the services' URLs name all of them. No
	// proxy stands before them then.
	Cluster fault.Cluster
	// Citus distributes the database, and Server is its coordinator; nil where nothing does.
	Citus *fault.Citus
	// Shared names the server that others use; "" for one of the run's own.
	Shared string
	// TLS is how the proxies connect to the server; nil is without.
	TLS      *tls.Config
	Services []Service
	// Replicas and Clients of each service.
	Replicas, Clients int
	// Path is where programs are looked for.
	Path string

	Seed    uint64
	Windows []Window
	// Notes say what is not done or cannot be checked.
	Notes []string
	// Out is the folder for the checker's pictures of violations; "" for none.
	Out string
	// Say gets the progress, a line at a time.
	Say func(format string, args ...any)
	// Begins is told of each window that begins, again of one that is repeated. It may be nil.
	Begins func(w Window)
	// Enough ends the run early, after a window; nil never does.
	Enough func(r *Report) bool
}

// Run runs the windows one after the other and returns what was found. An error means
// that the run itself failed; the report has what was found before.
func Run(ctx context.Context, s Setup) (report *Report, err error) {
	p := &prover{Setup: s, begun: time.Now()}
	report = &Report{
		Seed: s.Seed, Replicas: s.Replicas, Started: p.begun.UTC(), Server: s.Shared, Notes: s.Notes,
	}
	for _, one := range s.Services {
		report.Services = append(report.Services, one.Name)
	}
	if err = p.open(ctx); err == nil {
		err = p.run(ctx, report)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, p.close(closing))
	}
	report.Took = time.Since(p.begun)
	if err != nil {
		report.Broken = err.Error()
	}
	return report, err
}

// run starts the replicas, runs the windows and looks for what was left behind.
func (p *prover) run(ctx context.Context, report *Report) error {
	if err := p.start(ctx, false); err != nil {
		return err
	}
	for _, s := range p.subjects {
		_, s.idle = s.metric(ctx, goroutines)
	}

	for _, w := range p.Windows {
		if w.Name == windowHostile { // after which a replica may hold more memory
			for _, s := range p.subjects {
				report.After = append(report.After, s.leaks(ctx)...)
			}
		}
		result, err := p.window(ctx, w)
		if missed := result.missed(); err == nil && missed != "" {
			p.Say("%-10s the fault had no effect (%s): repeated with a double dose", w.Name, missed)
			result, err = p.window(ctx, w.doubled(p.Seed))
		}
		if err != nil {
			return fmt.Errorf("window %s: %w", w.Name, err)
		}
		report.Windows = append(report.Windows, result)
		p.Say("%s", result.lines())
		if p.Enough != nil && p.Enough(report) {
			return nil
		}
	}

	for _, s := range p.subjects {
		report.After = append(report.After, s.leaks(ctx)...)
	}
	return context.Cause(ctx) // interrupted, the checks show nothing
}

// window runs one window and checks the outcome.
func (p *prover) window(ctx context.Context, w Window) (*WindowResult, error) {
	result := &WindowResult{Window: w}
	if w.shape.pooler != (p.injector.Pooler != nil) {
		if err := errors.Join(p.stop(ctx), p.start(ctx, w.shape.pooler)); err != nil {
			return result, err
		}
	}

	p.windows++
	parts, err := p.take(ctx, w)
	if err != nil {
		return result, err
	}

	if p.Begins != nil {
		p.Begins(w)
	}
	p.started = time.Since(p.begun)
	stopLoad, stopWatch := p.load(ctx, w, parts), p.watch(ctx, parts)
	err = p.inject(ctx, w, parts)
	stopWatch()
	stopLoad()
	if err := errors.Join(context.Cause(ctx), err); err != nil {
		return result, err
	}
	if result.Checks, err = p.recovered(ctx); err != nil {
		return result, err
	}

	// Services are judged in parallel, because judging mostly waits.
	result.Services = make([]ServiceResult, len(parts))
	var judges errgroup.Group
	for i, s := range parts {
		judges.Go(func() (err error) {
			if result.Services[i], err = p.judge(ctx, s, w); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			return nil
		})
	}
	if err := judges.Wait(); err != nil {
		return result, err
	}
	if w.Name == windowNone || w.Name == windowCitusNone {
		n, err := p.deadlocks(ctx)
		if err != nil {
			return result, err
		}
		result.Checks = append(result.Checks, check(deadlocks, n == 0, "%d without faults", n))
		for _, s := range p.subjects {
			_, s.memory = s.metric(ctx, residentMemory) // 0 is not compared
		}
	}
	return result, nil
}

// take makes the clients of every service that takes part in the window.
func (p *prover) take(ctx context.Context, w Window) (parts []*subject, err error) {
	for _, s := range p.subjects {
		if !w.Has(s.Name) || s.Maria != nil && !w.shape.maria {
			continue
		}
		if w.shape.environ != nil {
			if err := p.restart(ctx, s, w.shape.environ); err != nil {
				return nil, err
			}
		}

		s.history, s.flips = history.New(p.begun), s.readFlips()
		normal := site{
			window: w.Name, url: s.balancer.URL(), client: s.http, history: s.history,
			prefix: fmt.Sprintf("%s%d", w.Name, p.windows), maria: s.Maria != nil, db: s.db, metric: s.metric,
		}
		normal.resolved, _ = s.metric(ctx, resolvedTotal)
		if s.clients, err = s.kind.open(ctx, normal); err != nil {
			return nil, err
		}
		s.Lock, s.Attacks, s.attacked = s.clients.lock, nil, nil
		if w.Name == windowHostile {
			if err := p.attack(ctx, s, normal); err != nil {
				return nil, err
			}
		}
		s.Begin()
		parts = append(parts, s)
	}
	return parts, nil
}

// load runs the clients until the function that it returns is called, which waits for
// their last answers.
func (p *prover) load(ctx context.Context, w Window, parts []*subject) (stop func()) {
	longestPause := 40 * time.Millisecond * time.Duration(max(w.shape.pause, 1)) // between two operations of a client
	ctx, cancel := context.WithCancel(ctx)
	whole := context.WithoutCancel(ctx) // an operation that has started gets its answer
	var wg sync.WaitGroup
	for i, s := range parts {
		for client := range p.Clients * max(w.shape.clients, 1) {
			random := newRandom(p.Seed, p.windows, i, client)
			wg.Go(func() {
				for ctx.Err() == nil {
					s.clients.step(whole, client, random)
					fault.Wait(ctx, time.Duration(random.Int64N(int64(longestPause)+1)))
				}
			})
		}
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// inject carries the schedule out, and measures how long every service takes until it
// answers when the faults have ended.
func (p *prover) inject(ctx context.Context, w Window, parts []*subject) error {
	targets := make([]*fault.Target, len(parts))
	for i, s := range parts {
		targets[i] = s.Target
	}
	begin := time.Now()
	var faults errgroup.Group
	for _, e := range w.Events {
		faults.Go(func() error {
			if !fault.Wait(ctx, e.At) {
				return nil
			}
			return p.injector.Inject(ctx, e, targets)
		})
	}
	failed := faults.Wait()

	p.outages = p.injector.Outages()
	fault.Wait(ctx, w.For-quiet-time.Since(begin))
	for _, s := range parts {
		if s.Proxy != nil {
			s.Proxy.StopCutting()
		}
	}

	if p.Citus != nil {
		p.Citus.StopCutting()
	}
	healed := time.Now()
	var probes sync.WaitGroup
	for _, s := range parts {
		probes.Go(func() {
			const giveUp = 15 * time.Second
			for s.clients.probe(ctx) != nil && time.Since(healed) < giveUp && ctx.Err() == nil {
				fault.Wait(ctx, 10*time.Millisecond)
			}
			s.recovery = time.Since(healed)
		})
	}
	probes.Wait()

	fault.Wait(ctx, w.For-time.Since(begin))
	return failed
}

// judge settles and checks one service after a window.
func (p *prover) judge(ctx context.Context, s *subject, w Window) (ServiceResult, error) {
	flips := 0
	for i, now := range s.readFlips() {
		flips = max(flips, now-s.flips[i])
	}
	result := ServiceResult{Service: s.Name, Recovery: s.recovery, Done: s.Done(), Signs: map[string]int{}}
	if w.shape.environ != nil { // these faults end now
		if err := p.restart(ctx, s, nil); err != nil {
			return result, err
		}
	}

	settled := s.clients.settle(ctx)
	found := findings{ops: s.history.Ops(), began: p.started, db: s.db, pictures: p.Out, signs: result.Signs}
	if w.Loses {
		found.pictures = "" // of violations, which are no failure here
	}

	s.clients.check(ctx, &found)
	ended := "every client has ended"
	if settled != nil {
		ended = settled.Error()
	}
	found.addf("settled", settled == nil, "%s", ended)
	result.summarize(found.ops, found.began, w)
	if w.Loses {
		found.checks = noticed(found.checks, result.Codes)
	} else if len(p.outages) > 0 {
		found.checks = append(found.checks, judgeOutages(p.without(found.ops, s.kind.changes), w.Servers()))
	}
	if s.attacked != nil {
		s.attacked.account(ctx, w, &found)
	}
	result.Checks = slices.Concat(found.checks, w.judge(result, flips), w.judgeEffects(result))
	return result, found.err
}
