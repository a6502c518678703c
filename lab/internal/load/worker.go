package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// The pause before a broken connection is made anew grows from the first to the second and is jittered.
const (
	firstRedialPause = 5 * time.Millisecond
	lastRedialPause  = 500 * time.Millisecond
)

// worker owns one connection and sends its turns one after the other.
type worker struct {
	index    int
	target   string
	timeout  int64
	clock    clock
	plan     schedule
	recorder *recorder
	counters *counters
	rng      *rand.Rand
	timer    *time.Timer   // reused: an open loop waits before nearly every request
	pause    time.Duration // before the next dial; 0 after a success

	mu   sync.Mutex // guards conn against the watchdog
	conn *conn
}

func newWorker(index int, cfg Config, c *conn, clock clock, plan schedule, recorder *recorder) *worker {
	return &worker{
		index:    index,
		target:   cfg.Targets[index%len(cfg.Targets)],
		timeout:  int64(cfg.Timeout),
		clock:    clock,
		plan:     plan,
		recorder: recorder,
		counters: newCounters(),
		rng:      rand.New(rand.NewPCG(cfg.Seed, uint64(index))),
		timer:    time.NewTimer(time.Hour),
		conn:     c,
	}
}

func (w *worker) run(ctx context.Context) error {
	defer w.timer.Stop()

	for ctx.Err() == nil {
		t, ok := w.plan.next(w.rng)
		if !ok {
			break
		}

		if !w.wait(ctx, t.due) {
			break
		}

		if w.conn == nil && !w.redial(ctx, t) {
			continue
		}

		if err := w.send(t); err != nil {
			return err
		}
	}

	return w.replace(nil)
}

// wait sleeps until a turn is due. A turn that ctx takes away was never sent and is not counted.
func (w *worker) wait(ctx context.Context, due int64) bool {
	ahead := due - w.clock.now()

	return ahead <= 0 || w.sleep(ctx, time.Duration(ahead))
}

func (w *worker) sleep(ctx context.Context, d time.Duration) bool {
	w.timer.Reset(d)

	select {
	case <-w.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *worker) send(t turn) error {
	sent := w.clock.now()
	status, reusable, err := w.conn.roundTrip(t.request, sent+w.timeout)
	done := w.clock.now()
	measured := w.plan.measured(t.due, done)

	if !reusable {
		err = errors.Join(err, w.replace(nil))
	}

	if status == 0 {
		w.counters.failed(failureOf(err), measured)

		return nil
	}

	w.counters.answered(status, measured)

	if measured && status >= 200 && status < 300 {
		return w.recorder.record(w.index, done-t.due, max(0, sent-t.due))
	}

	return nil
}

// redial makes the connection anew for a turn; when it cannot, the turn has failed.
func (w *worker) redial(ctx context.Context, t turn) bool {
	if w.pause > 0 && !w.sleep(ctx, w.pause/2+rand.N(w.pause)) {
		return false
	}

	w.counters.redials++

	c, err := dial(ctx, w.target)
	if err != nil {
		w.pause = min(max(firstRedialPause, 2*w.pause), lastRedialPause)
		w.counters.failed(FailureDial, w.plan.measured(t.due, w.clock.now()))

		return false
	}

	w.pause = 0

	return w.replace(c) == nil
}

// replace puts c in the place of the present connection and closes that.
func (w *worker) replace(c *conn) error {
	w.mu.Lock()
	old := w.conn
	w.conn = c
	w.mu.Unlock()

	if old == nil {
		return nil
	}

	return old.close()
}

// expire gives up the request in flight when it is overdue.
func (w *worker) expire(now int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.conn == nil {
		return nil
	}

	return w.conn.expire(now)
}

// watchdog ends overdue requests. One scan of all connections now and then is far cheaper than a deadline set for every request.
type watchdog struct {
	done  chan struct{}
	ended chan error
}

func startWatchdog(workers []*worker, clock clock, timeout time.Duration) *watchdog {
	d := &watchdog{done: make(chan struct{}), ended: make(chan error, 1)}
	period := min(max(timeout/8, time.Millisecond), 250*time.Millisecond)

	go func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()

		var errs error

		for {
			select {
			case <-ticker.C:
				now := clock.now()
				for _, w := range workers {
					errs = errors.Join(errs, w.expire(now))
				}
			case <-d.done:
				d.ended <- errs

				return
			}
		}
	}()

	return d
}

func (d *watchdog) stop() error {
	close(d.done)

	return <-d.ended
}
