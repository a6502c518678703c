package load

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run loads the targets for cfg.Warmup + cfg.Duration, waits for the answers still in flight, and returns what it measured.
//
// All connections are made before the clock starts; when one cannot be made, Run fails. Later a broken connection is counted and made
// anew. When ctx ends, no new request is sent, those in flight are waited for, and the error of ctx is returned with the result so far.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}

	conns, err := dialAll(ctx, cfg)
	if err != nil {
		return nil, err
	}

	clock := clock{start: time.Now()}
	measured := window{from: int64(cfg.Warmup), to: int64(cfg.Warmup + cfg.Duration)}

	var plan schedule = &saturating{clock: clock, window: measured, requests: cfg.Requests}
	if cfg.Rate > 0 {
		plan = &openLoop{window: measured, requests: cfg.Requests, interval: float64(time.Second) / cfg.Rate}
	}

	meter := startMeter(ctx, measured)
	result, err := drive(ctx, cfg, conns, clock, plan)
	result.CPU = meter.stop()
	result.Window = cfg.Duration

	return result, err
}

// Once sends each of cfg.Requests one time, in no particular order, and returns what became of them. Rate, Warmup and Duration of cfg
// are not used.
func Once(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}

	conns, err := dialAll(ctx, cfg)
	if err != nil {
		return nil, err
	}

	clock, before := clock{start: time.Now()}, processCPU()
	result, err := drive(ctx, cfg, conns, clock, &onceEach{clock: clock, requests: cfg.Requests})
	result.Window, result.CPU = time.Since(clock.start), processCPU()-before

	return result, err
}

// dialAll makes the connections, a few at a time: a burst of hundreds can overflow a listen queue, and the repeated SYN costs a second.
func dialAll(ctx context.Context, cfg Config) ([]*conn, error) {
	conns := make([]*conn, cfg.Connections)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(16)

	for i := range conns {
		group.Go(func() error {
			c, err := dial(groupCtx, cfg.Targets[i%len(cfg.Targets)])
			conns[i] = c

			return err
		})
	}

	if err := group.Wait(); err != nil {
		for _, c := range conns {
			if c != nil {
				err = errors.Join(err, c.close())
			}
		}

		return nil, fmt.Errorf("load: %w", err)
	}

	return conns, nil
}

// drive runs one worker per connection until the schedule ends. The result is never nil.
func drive(ctx context.Context, cfg Config, conns []*conn, clock clock, plan schedule) (*Result, error) {
	recorder := newRecorder()
	workers := make([]*worker, len(conns))

	for i, c := range conns {
		workers[i] = newWorker(i, cfg, c, clock, plan, recorder)
	}

	watch := startWatchdog(workers, clock, cfg.Timeout)

	var group errgroup.Group
	for _, w := range workers {
		group.Go(func() error { return w.run(ctx) })
	}

	err := errors.Join(group.Wait(), watch.stop(), context.Cause(ctx))

	result := &Result{Statuses: map[int]int64{}, Failures: map[Failure]int64{}}
	result.Latency, result.Lateness = recorder.merge()

	for _, w := range workers {
		result.Tally.add(w.counters.tally)
		result.Succeeded += w.counters.measured
		result.Redials += w.counters.redials

		for status, n := range w.counters.statuses {
			result.Statuses[status] += n
		}

		for failure, n := range w.counters.failures {
			result.Failures[failure] += n
		}
	}

	return result, err
}

// meter reads the CPU time of this process at both ends of the window.
type meter struct {
	cancel context.CancelFunc
	used   chan time.Duration
}

func startMeter(ctx context.Context, w window) *meter {
	ctx, cancel := context.WithCancel(ctx)
	m := &meter{cancel: cancel, used: make(chan time.Duration, 1)}

	go func() {
		if !sleep(ctx, time.Duration(w.from)) {
			m.used <- 0

			return
		}

		before := processCPU()
		sleep(ctx, time.Duration(w.to-w.from)) // cut short: what was used until now

		m.used <- processCPU() - before
	}()

	return m
}

// stop returns what the process used in the window.
func (m *meter) stop() time.Duration {
	defer m.cancel()

	return <-m.used
}

// processCPU is the user and system time that this process has used, without its children.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // only possible with a bad argument
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
