package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Run loads the targets for cfg.Warmup + cfg.Duration, waits for the answers still in flight, and returns what it
// measured.
//
// All connections are made before the clock starts; when one cannot be made, Run fails. Later a broken connection is
// counted and made anew. When ctx ends, no new request is sent, those in flight are waited for, and the error of ctx is
// returned with the result so far.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	end := cfg.Warmup + cfg.Duration
	within := func(at time.Duration) bool { return cfg.Warmup <= at && at < end }
	draw := cfg.Next
	if draw == nil {
		draw = func() []byte { return cfg.Requests[rand.IntN(len(cfg.Requests))] }
	}

	chosen := plan{
		next: func(now time.Duration) (turn, bool) {
			if now >= end {
				return turn{}, false
			}

			return turn{draw(), now}, true
		},
		measured: func(_, done time.Duration) bool { return within(done) },
	}

	if cfg.Rate > 0 {
		var dealt atomic.Int64

		// A worker takes the next turn as soon as it is free, however late: when all connections are stalled the turns
		// fall due unsent, and each of them later carries its wait in its latency.
		chosen.next = func(time.Duration) (turn, bool) {
			due := time.Duration(float64(dealt.Add(1)-1) * float64(time.Second) / cfg.Rate)
			if due >= end {
				return turn{}, false
			}

			return turn{draw(), due}, true
		}
		chosen.measured = func(due, _ time.Duration) bool { return within(due) }
	}

	result, err := drive(ctx, cfg, chosen)
	if result != nil {
		result.Window = cfg.Duration
	}

	return result, err
}

// Once sends each of cfg.Requests one time, as fast as the targets answer and in no particular order, and returns what
// became of them. Rate, Warmup and Duration of cfg are not used.
func Once(ctx context.Context, cfg Config) (*Result, error) {
	var dealt atomic.Int64

	return drive(ctx, cfg, plan{
		next: func(now time.Duration) (turn, bool) {
			i := dealt.Add(1) - 1
			if i >= int64(len(cfg.Requests)) {
				return turn{}, false
			}

			return turn{cfg.Requests[i], now}, true
		},
		measured: func(_, _ time.Duration) bool { return true },
	})
}

// turn holds one request and when it should be sent: latency counts from there. Times are on the clock of the run.
type turn struct {
	request []byte
	due     time.Duration
}

// plan says what to send next and when; all workers of a run share it.
type plan struct {
	// next returns the next turn, or false when the run is over. The worker waits until the turn is due before it
	// sends.
	next func(now time.Duration) (turn, bool)
	// measured reports whether a request due and done at these times belongs to the measured window.
	measured func(due, done time.Duration) bool
}

// drive runs one worker per connection until the plan or ctx ends. The result is nil when a first connection could not
// be made.
func drive(ctx context.Context, cfg Config, p plan) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}

	result := &Result{
		Statuses: map[int]int64{}, Failures: map[Failure]int64{}, Latency: NewHistogram(), Lateness: NewHistogram(),
	}
	workers := make([]*worker, cfg.Connections)

	defer func() {
		for _, w := range workers {
			w.drop()
		}
	}()

	// One after the other: a burst of hundreds can overflow a listen queue, and the repeated SYN costs a second.
	for i := range workers {
		workers[i] = &worker{plan: p, result: result, target: cfg.Targets[i%len(cfg.Targets)], timeout: cfg.Timeout}
		if err := workers[i].dial(ctx); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
	}

	var group sync.WaitGroup

	start := time.Now()
	for _, w := range workers {
		w.start = start
		group.Go(func() { w.run(ctx) })
	}

	group.Wait()

	result.Window = time.Since(start)

	return result, context.Cause(ctx)
}

// redialPause bounds the random pause after a dial that failed.
const redialPause = 200 * time.Millisecond

// worker owns one connection and sends its turns one after the other.
type worker struct {
	plan

	result  *Result
	start   time.Time
	target  string
	timeout time.Duration
	conn    *conn // nil after it broke
}

func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(0) // reused: an open loop waits before nearly every request
	defer timer.Stop()

	for ctx.Err() == nil {
		t, ok := w.next(time.Since(w.start))
		if !ok || !sleep(ctx, timer, t.due-time.Since(w.start)) {
			return
		}

		if w.conn == nil && w.dial(ctx) != nil {
			w.result.add(0, FailureDial, w.measured(t.due, time.Since(w.start)), 0, 0)
			sleep(ctx, timer, rand.N(redialPause))

			continue
		}

		w.send(t)
	}
}

func (w *worker) send(t turn) {
	sent := time.Since(w.start)
	status, reusable, err := w.conn.roundTrip(t.request, sent)
	done := time.Since(w.start)

	if !reusable {
		w.drop()
	}

	w.result.add(status, failureOf(err), w.measured(t.due, done), done-t.due, sent-t.due)
}

func (w *worker) dial(ctx context.Context) (err error) {
	w.conn, err = dial(ctx, w.target, w.timeout)

	return err
}

// drop closes the connection; what it may still have to say is of no use.
func (w *worker) drop() {
	if w != nil && w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	if d <= 0 {
		return true
	}

	timer.Reset(d)

	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
