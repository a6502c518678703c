package coalesce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Defaults and bounds; the figures are those of docs/architecture.md, "Group commit".
const (
	defaultMaxItems  = 500
	defaultMaxBytes  = 64 << 10
	defaultQueue     = 1024
	defaultBriefWait = 50 * time.Millisecond
	// longestWait caps the growing waits of the slow lane, so that another slow key
	// whose row has become free is tried again within this time.
	longestWait = time.Second
)

// Pass selects how Run treats rows locked by other transactions.
type Pass struct {
	// Wait is how long the statement may wait for a lock; after that Run returns
	// ErrLockWait. Zero when SkipLocked is set.
	Wait time.Duration
	// SkipLocked asks to leave locked rows unchanged and to mark their requests
	// Answer.Locked, which must never be mistaken for a missing row.
	SkipLocked bool
}

// Answer is the result of one request of a group.
type Answer[R any] struct {
	Value  R
	Err    error
	Locked bool // a row is locked by another transaction: not applied, to be tried again
	At     int  // which row is: 0 that of Config.Key, i that of the i-th of Config.Others, counted from 1
}

// Config configures a coalescer of requests Q with keys K and results R.
type Config[K comparable, Q, R any] struct {
	Limits

	// Name labels the metrics; a constant such as "counts_add".
	Name string
	// Key returns the key of the row that a request locks.
	Key func(Q) K
	// Others returns the keys of the further rows that a request locks. Nil: it locks none.
	Others func(Q) []K
	// Await returns those keys whose rows are free, and changes nothing. It is required with Others: a request that
	// waited for one row by itself would keep its other rows locked. With Pass.Wait there is one key, for which it waits;
	// after that it returns ErrLockWait.
	Await func(ctx context.Context, pass Pass, keys []K) (free []K, err error)
	// Size returns a request's share of MaxBytes, in bytes. Nil counts nothing.
	Size func(Q) int
	// Weight returns a request's share of MaxItems, at least 1. Nil counts each as 1.
	Weight func(Q) int
	// Run applies a group in one statement, commits, and returns one answer per
	// request, in the group's order. An error goes to every caller of the group. Run
	// must honour ctx and must not keep the slice.
	Run func(ctx context.Context, pass Pass, group []Q) ([]Answer[R], error)

	MaxItems   int           // sum of Weight in a group; default 500
	QueueItems int           // sum of Weight that waits, so that large requests are refused first; 0 bounds nothing
	MaxBytes   int           // sum of Size in a group; default 64 KiB
	BriefWait  time.Duration // a group's first wait for locks; default 50 ms
	Statements int           // statements of one Run that may take all of StatementTimeout; default 1
	Gate       *Gate         // with other coalescers, for InFlight 1; nil: its groups run whatever others do
}

// Limits are the settings that the coalescers of a service share.
type Limits struct {
	Queue            int           // requests waiting at most; default 1024
	InFlight         int           // groups running at once; default 1
	LockTimeout      time.Duration // how long a request may wait for a locked row; required
	StatementTimeout time.Duration // the server's statement_timeout; required

	// Contention records the waits for locked rows; it may be nil.
	Contention *contention.Metrics
	// Share bounds the requests in the slow lanes; nil bounds nothing.
	Share *contention.Share
	// Registry registers the metrics; it may be nil.
	Registry prometheus.Registerer
	// TracerProvider makes a span of each group; nil makes none, and costs nothing.
	TracerProvider trace.TracerProvider
}

// statementGrace lets the server's own statement_timeout end a statement first: its answer is definite, a deadline of
// the client's is not. Beyond sqldb.Grace a statement also costs no goroutine.
const statementGrace = 2 * sqldb.Grace

// Coalescer gathers concurrent requests into groups. New returns one. It runs no
// goroutine while no request waits.
type Coalescer[K comparable, Q, R any] struct {
	cfg     Config[K, Q, R]
	metrics *metrics
	tracer  trace.Tracer // nil where tracing is off
	gate    *Gate        // Config.Gate, or one of its own, which has no turns

	patience patience // with the callers that the next group waits for

	mu           sync.Mutex
	queue        fifo[*call[K, Q, R]]      // the main lane, in order of arrival
	counted      int                       // calls in queue that the gate knows of
	locked       map[K]*lockedKey[K, Q, R] // the keys that are known to be locked
	slowKeys     []K                       // those with callers in the slow lane; the first is waited for next
	slowCounted  int                       // keys in slowKeys that the metric has
	probes       []*call[K, Q, R]          // callers that find out whether a locked key has come free
	waiting      int                       // calls in queue, the slow lane and probes that were not sent
	waitingItems int                       // sum of their items
	running      int                       // groups of the main lane in flight
	slowRunning  bool                      // the slow lane's goroutine runs
	probing      bool                      // the probes' goroutine runs
	closed       bool
	idle         sync.Cond // signalled when nothing waits and nothing runs

	late          int // statements that the server has not answered in time
	stalledPlaces int // of Limits.Share that callers hold because of these
}

// New checks cfg and returns a coalescer.
func New[K comparable, Q, R any](cfg Config[K, Q, R]) (*Coalescer[K, Q, R], error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("coalesce: register the metrics of %s: %w", cfg.Name, err)
	}
	return start(cfg, m), nil
}

// complete fills in the defaults, or returns an error that says what the configuration lacks.
func (cfg *Config[K, Q, R]) complete() error {
	if cfg.Name == "" || cfg.Key == nil || cfg.Run == nil {
		return errors.New("coalesce: Name, Key and Run are required")
	}
	if cfg.LockTimeout <= 0 || cfg.StatementTimeout <= 0 {
		return errors.New("coalesce: LockTimeout and StatementTimeout must be positive")
	}
	cfg.MaxItems = cmp.Or(max(cfg.MaxItems, 0), defaultMaxItems)
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), defaultMaxBytes)
	cfg.Queue = cmp.Or(max(cfg.Queue, 0), defaultQueue)
	cfg.QueueItems = cmp.Or(max(cfg.QueueItems, 0), math.MaxInt)
	cfg.InFlight = max(cfg.InFlight, 1)
	cfg.Statements = max(cfg.Statements, 1)
	cfg.BriefWait = cmp.Or(max(cfg.BriefWait, 0), min(defaultBriefWait, cfg.LockTimeout))
	if cfg.Gate != nil && cfg.InFlight > 1 {
		return errors.New("coalesce: Gate requires InFlight 1")
	}
	if cfg.Others != nil && cfg.Await == nil {
		return errors.New("coalesce: Others requires Await")
	}
	if cfg.Size == nil {
		cfg.Size = func(Q) int { return 0 }
	}
	if cfg.Weight == nil {
		cfg.Weight = func(Q) int { return 1 }
	}
	return nil
}

// runTimeout returns how long one Run may take.
func (cfg *Config[K, Q, R]) runTimeout() time.Duration {
	return time.Duration(cfg.Statements)*cfg.StatementTimeout + statementGrace
}

// start returns a coalescer whose configuration is complete.
func start[K comparable, Q, R any](cfg Config[K, Q, R], m *metrics) *Coalescer[K, Q, R] {
	c := &Coalescer[K, Q, R]{cfg: cfg, metrics: m, locked: make(map[K]*lockedKey[K, Q, R])}
	if cfg.TracerProvider != nil {
		c.tracer = cfg.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/coalesce")
	}
	if c.gate = cfg.Gate; c.gate == nil {
		c.gate = new(Gate)
	}
	c.idle.L = &c.mu
	return c
}

// Do puts q into the next group and waits for its answer. Beside the errors of Run it
// returns ErrQueueFull, ErrClosed, ErrLocked, contention.ErrCrowded, ErrLeft or ErrUnknown.
func (c *Coalescer[K, Q, R]) Do(ctx context.Context, q Q) (R, error) {
	var zero R
	if err := ctx.Err(); err != nil {
		return zero, errors.Join(ErrLeft, err)
	}
	w := &call[K, Q, R]{
		req: q, items: max(c.cfg.Weight(q), 1), key: c.cfg.Key(q), since: time.Now(), done: make(chan Answer[R], 1),
	}
	if c.tracer != nil {
		w.recordSpan(ctx)
	}

	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return zero, ErrClosed
	case c.waiting >= c.cfg.Queue || c.waiting > 0 && w.items > c.cfg.QueueItems-c.waitingItems:
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
	case a := <-w.done: // answered at the same moment: the result is better than a timeout
		return a.Value, a.Err
	default:
	}
	c.givePlace(w)
	if w.state == sent {
		w.abandoned = true // the statement goes on, but the call will not wait in a lane again
		return zero, errors.Join(ErrUnknown, ctx.Err())
	}
	w.state = finished // take skips it
	c.addWaiting(-1, -w.items)
	return zero, errors.Join(ErrLeft, ctx.Err())
}

// enqueue appends w to its lane and makes sure that a goroutine serves the lane, or
// refuses w. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) enqueue(w *call[K, Q, R]) {
	c.addWaiting(1, w.items)
	if c.late > 0 && !c.takePlaceOf(&c.stalledPlaces, w) {
		return
	}
	if k := c.findLocked(w); k != nil {
		c.enterLocked(w.key, k, w)
		return
	}
	c.queue.push(w)
	c.startServing()
}

// startServing serves the main queue, to which calls were added: it starts a goroutine
// unless enough run. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) startServing() {
	c.countQueue()
	if !c.queue.empty() && c.running < c.cfg.InFlight {
		c.running++
		go c.serve()
	}
}

// addWaiting adds to the number of waiting calls and to the sum of their items. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) addWaiting(calls, items int) {
	c.waiting += calls
	c.waitingItems += items
	c.metrics.queue.Add(float64(calls)) // not Set: the coalescers of a Sharded have one metric
}

// Close refuses new requests and waits until all others are answered. It returns
// ctx's error when ctx ends first; the requests are still served.
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
	for c.busy() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("coalesce: %d requests were still waiting: %w", c.waiting, err)
		}
		c.idle.Wait()
	}
	return nil
}
