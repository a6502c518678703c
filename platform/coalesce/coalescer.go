package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/contention"
)

// Defaults and bounds; the figures are those of docs/architecture.md, "Group commit".
const (
	defaultMaxItems  = 500
	defaultMaxBytes  = 64 << 10
	defaultQueue     = 1024
	defaultBriefWait = 50 * time.Millisecond
	// longestWait caps the growing waits of the slow lane, so that another slow
	// key whose row has become free is looked at again within this time.
	longestWait = time.Second
)

// Pass tells Run how to treat rows that others have locked.
type Pass struct {
	// Wait is how long a lock may be waited for; Run returns ErrLockWait when
	// it runs out. Zero when SkipLocked is set.
	Wait time.Duration
	// SkipLocked asks to leave locked rows out and to mark their requests
	// Answer.Locked, which must never be mistaken for a missing row.
	SkipLocked bool
}

// Answer is what one request of a group gets.
type Answer[R any] struct {
	Value  R
	Err    error
	Locked bool // the row is locked by somebody else: not applied, to be tried again
}

// Config describes a coalescer of requests Q with keys K and results R.
type Config[K comparable, Q, R any] struct {
	// Name labels the metrics; a constant such as "counts_add".
	Name string
	// Key names the row that a request locks.
	Key func(Q) K
	// Size is a request's share of MaxBytes, in bytes. Nil counts nothing.
	Size func(Q) int
	// Run applies a group in one statement and returns one answer per request,
	// in the group's order. An error is everybody's. It must have committed when
	// it returns, must honour ctx, and must not keep the slice.
	Run func(ctx context.Context, pass Pass, group []Q) ([]Answer[R], error)

	MaxItems    int           // requests in a group; default 500
	MaxBytes    int           // sum of Size in a group; default 64 KiB
	Queue       int           // requests waiting at most; default 1024
	InFlight    int           // groups running at once; default 1
	BriefWait   time.Duration // a group's first wait for locks; default 50 ms
	LockTimeout time.Duration // how long a request may wait for a locked row; required
	RunTimeout  time.Duration // the deadline of one Run; required

	// Contention is told how long those have waited whose row was held; it may be nil.
	Contention *contention.Metrics
	// Registry receives the metrics; nil keeps none.
	Registry prometheus.Registerer
	// TracerProvider makes a span of each group; nil makes none, and costs nothing.
	TracerProvider trace.TracerProvider
}

// Coalescer gathers concurrent requests into groups. Make one with New; it has
// no goroutine of its own while nothing waits.
type Coalescer[K comparable, Q, R any] struct {
	cfg     Config[K, Q, R]
	metrics *metrics
	tracer  trace.Tracer // nil where tracing is off

	mu      sync.Mutex
	queue   fifo[*call[Q, R]]   // the main lane, in order of arrival
	slow    map[K][]*call[Q, R] // the slow lane: callers by locked key
	rotate  []K                 // the slow keys, next to be waited for first
	waiting int                 // calls in queue and slow that were not sent
	running int                 // groups of the main lane in flight
	lane    bool                // the slow lane's goroutine runs
	closed  bool
	idle    sync.Cond // signalled when nothing waits and nothing runs
}

// New checks cfg and returns a coalescer.
func New[K comparable, Q, R any](cfg Config[K, Q, R]) (*Coalescer[K, Q, R], error) {
	if cfg.Name == "" || cfg.Key == nil || cfg.Run == nil {
		return nil, errors.New("coalesce: Name, Key and Run are required")
	}
	if cfg.LockTimeout <= 0 || cfg.RunTimeout <= 0 {
		return nil, errors.New("coalesce: LockTimeout and RunTimeout must be positive")
	}
	setDefault(&cfg.MaxItems, defaultMaxItems)
	setDefault(&cfg.MaxBytes, defaultMaxBytes)
	setDefault(&cfg.Queue, defaultQueue)
	setDefault(&cfg.InFlight, 1)
	setDefault(&cfg.BriefWait, min(defaultBriefWait, cfg.LockTimeout))
	if cfg.Size == nil {
		cfg.Size = func(Q) int { return 0 }
	}
	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("coalesce: register the metrics of %s: %w", cfg.Name, err)
	}
	c := &Coalescer[K, Q, R]{cfg: cfg, metrics: m, tracer: tracerOf(cfg.TracerProvider), slow: make(map[K][]*call[Q, R])}
	c.idle.L = &c.mu
	return c, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Do puts q into the next group and waits for its own answer. Beside the errors
// of Run it returns ErrQueueFull, ErrClosed, ErrLocked, ErrLeft or ErrUnknown.
func (c *Coalescer[K, Q, R]) Do(ctx context.Context, q Q) (R, error) {
	var zero R
	if err := ctx.Err(); err != nil {
		return zero, errors.Join(ErrLeft, err)
	}
	w := &call[Q, R]{req: q, since: time.Now(), done: make(chan Answer[R], 1)}
	if c.tracer != nil {
		w.noteSpan(ctx)
	}

	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return zero, ErrClosed
	case c.waiting >= c.cfg.Queue:
		c.mu.Unlock()
		c.metrics.refused.Inc()
		return zero, ErrQueueFull
	}
	c.enqueue(w)
	c.mu.Unlock()

	select {
	case a := <-w.done:
		return a.Value, a.Err
	case <-ctx.Done():
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case a := <-w.done: // answered in the same moment: the truth is better than a timeout
		return a.Value, a.Err
	default:
	}
	if w.state == sent {
		w.left = true // its work stands, but it will not wait in a lane again
		return zero, errors.Join(ErrUnknown, ctx.Err())
	}
	w.state = settled // whoever takes groups passes over it
	c.setWaiting(-1)
	return zero, errors.Join(ErrLeft, ctx.Err())
}

// enqueue appends w to its lane and makes sure that somebody serves the lane.
// The caller holds c.mu.
func (c *Coalescer[K, Q, R]) enqueue(w *call[Q, R]) {
	c.setWaiting(1)
	key := c.cfg.Key(w.req)
	if callers, isSlow := c.slow[key]; isSlow {
		c.slow[key] = append(callers, w)
		return // a slow key has its lane's goroutine already
	}
	c.queue.push(w)
	c.startServing()
}

// startServing makes sure that the main queue is worked on. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) startServing() {
	if !c.queue.empty() && c.running < c.cfg.InFlight {
		c.running++
		go c.serve()
	}
}

func (c *Coalescer[K, Q, R]) setWaiting(d int) {
	c.waiting += d
	c.metrics.queue.Set(float64(c.waiting))
}

// Close refuses new requests and waits until all others are answered. It
// returns ctx's error when that takes too long; the work goes on all the same.
func (c *Coalescer[K, Q, R]) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()

	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})
	defer stop()

	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running > 0 || c.lane {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("coalesce: %d requests were still waiting: %w", c.waiting, err)
		}
		c.idle.Wait()
	}
	return nil
}
