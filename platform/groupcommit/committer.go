package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Config describes how requests Q with keys K are sent, and answered by an R each.
type Config[K comparable, Q, R any] struct {
	Limits

	// Name labels the metrics and names the spans: a constant such as "events_add".
	Name string
	// Key returns the key of the row that a request locks.
	Key func(Q) K
	// Size returns a request's share of MaxBytes, in bytes. Nil counts nothing.
	Size func(Q) int
	// Place returns the value that a request's rows have in the distribution column. Groups are for one shard each.
	// Required where the slots are [Beside] a table.
	Place func(Q) string
	// Send sends a group and sets a.Answers. It keeps neither a nor the group.
	Send func(ctx context.Context, s Session, a *Attempt, group []Q) error
	// Repeat sends a group in place of Send, by one statement that may be sent any number of times: it reads, or it
	// recognises in the rows what it has written before. It needs no slot: after a lost answer it is sent again. It
	// returns an answer for each request, nil where the request's row is locked, and keeps neither a nor the group.
	Repeat func(ctx context.Context, s Session, a *Attempt, group []Q) ([]*R, error)
	// Transaction says that Send needs several statements. They run in a READ COMMITTED transaction, which is committed
	// when Send returns nil. Without it Send sends one statement. Without slots it is required.
	Transaction bool
	// Held says that the key of a lane is held by another request, such as by a claim, and not by a lock: to wait for it
	// counts as a wait for that request.
	Held bool
	// Lease describes what a group leases before it is sent; nil: nothing.
	Lease *Lease[Q]
	// Patient tries requests again that have left their group. While one of them has met a row that stays locked, groups
	// only glance at locked rows, because nothing else remembers the lock. It may be nil.
	Patient *Patient

	MaxItems int // requests in a group; default 500
	MaxKeys  int // keys in a group; 0: as many as requests
	MaxBytes int // sum of Size in a group; default 64 KiB
}

// Limits are what the committers of a replica share.
type Limits struct {
	// DB is where groups are sent.
	DB *sqldb.DB
	// Slots prove the outcomes of Send. Nil, on MySQL alone: a lost answer is never found again.
	Slots *Slots

	Queue            int           // requests that wait, at most; default 1024
	InFlight         int           // groups under way beside those of locked keys, of each shard; default 1
	Permits          int           // groups under way on each server of a cluster, half as many of locked keys; default 2
	LockTimeout      time.Duration // how long a request may wait for a locked row; required
	StatementTimeout time.Duration // the server's statement_timeout; required
	// Timeout bounds one sending of a group, the look-ups after a lost answer included.
	Timeout time.Duration

	// Contention records the waits for locked rows; it may be nil.
	Contention *contention.Metrics
	// Pipeline joins the committers; nil: each sends when it likes. It requires InFlight 1.
	Pipeline *Pipeline
	// Share bounds the requests in lanes and in the lines of a Patient; nil bounds nothing.
	Share *contention.Share
	// Registry registers the metrics; it may be nil.
	Registry prometheus.Registerer
	// TracerProvider makes a span of each sending; nil makes none, and costs nothing.
	TracerProvider trace.TracerProvider
}

const (
	defaultMaxItems = 500
	defaultMaxBytes = 64 << 10
	defaultQueue    = 1024

	// briefWait is a group's first wait for locked rows: docs/architecture.md, "The way of a change", has the figures.
	briefWait = 50 * time.Millisecond
	// glance is the wait for rows that cannot be skipped, because another session is inserting them.
	glance = 5 * time.Millisecond
	// maxGlances bounds the waits of this kind for one group.
	maxGlances = 24
	// longestWait bounds the growing waits in lanes, so that a row that has come free is found within this time.
	longestWait = 250 * time.Millisecond
	// maxSends bounds how often a group is sent whose answer gets lost: it may be the group that breaks the server.
	maxSends = 3
	// statementGrace lets the server's statement_timeout end a statement first: its answer is definite.
	statementGrace = 2 * sqldb.Grace
)

// Committer sends groups of requests. New returns one. It runs no goroutine while no request waits. Where the slots are
// distributed, it has one committer of its own kind for each shard.
type Committer[K comparable, Q, R any] struct {
	*shared

	cfg      Config[K, Q, R]
	permits  *permits
	pipeline *Pipeline // Config.Pipeline, or one with one stage

	// Guarded by mu; nil on one server, and in the committer of a shard.
	shards  map[sqldb.Shard]*Committer[K, Q, R]
	servers map[int64]*permits

	mu         sync.Mutex
	queue      fifo[*call[K, Q, R]] // in order of arrival
	lanes      map[K]*lane[K, Q, R] // of the keys that are known to be locked
	turns      []K                  // the lanes with callers; the first one is waited for next
	counted    int                  // of the lanes with callers, those that the metric counts
	running    int                  // groups of the queue under way
	lanesServe bool                 // a goroutine serves the lanes
	patience   patience
	closed     bool
	idle       sync.Cond // signalled when nothing waits and nothing is under way
}

// New checks cfg and returns a committer.
func New[K comparable, Q, R any](cfg Config[K, Q, R]) (*Committer[K, Q, R], error) {
	if cfg.Name == "" || cfg.DB == nil || cfg.Key == nil || (cfg.Send == nil) == (cfg.Repeat == nil) {
		return nil, errors.New("groupcommit: Name, DB, Key and one of Send and Repeat are required")
	}
	if cfg.distributed() && cfg.Place == nil {
		return nil, errors.New("groupcommit: distributed slots need Place")
	}
	if cfg.Slots == nil && !cfg.Transaction && cfg.Repeat == nil {
		return nil, errors.New("groupcommit: a single statement needs Slots")
	}
	if cfg.Pipeline != nil && cfg.InFlight > 1 {
		return nil, errors.New("groupcommit: a Pipeline requires InFlight 1")
	}
	if cfg.LockTimeout <= 0 || cfg.StatementTimeout <= 0 {
		return nil, errors.New("groupcommit: LockTimeout and StatementTimeout must be positive")
	}

	if l := cfg.Lease; l != nil && (l.Take == nil || l.Release == nil || l.RetryWait <= 0) {
		return nil, errors.New("groupcommit: a Lease needs Take, Release and RetryWait")
	}

	cfg.MaxItems = cmp.Or(max(cfg.MaxItems, 0), defaultMaxItems)
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), defaultMaxBytes)
	cfg.Queue = cmp.Or(max(cfg.Queue, 0), defaultQueue)
	cfg.InFlight = max(cfg.InFlight, 1)
	cfg.Permits = cmp.Or(max(cfg.Permits, 0), defaultPermits)
	cfg.Timeout = max(cfg.Timeout, cfg.StatementTimeout+statementGrace)
	if cfg.Size == nil {
		cfg.Size = func(Q) int { return 0 }
	}

	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("groupcommit: register the metrics of %s: %w", cfg.Name, err)
	}

	s := &shared{metrics: m}
	if cfg.TracerProvider != nil {
		s.tracer = cfg.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/groupcommit")
	}
	c := start(cfg, s, nil)
	if cfg.distributed() {
		c.shards, c.servers = make(map[sqldb.Shard]*Committer[K, Q, R]), make(map[int64]*permits)
	}
	return c, nil
}

// start returns the committer of one server or one shard.
func start[K comparable, Q, R any](cfg Config[K, Q, R], s *shared, p *permits) *Committer[K, Q, R] {
	c := &Committer[K, Q, R]{
		shared: s, cfg: cfg, permits: p, pipeline: cmp.Or(cfg.Pipeline, new(Pipeline)), lanes: make(map[K]*lane[K, Q, R]),
	}
	c.idle.L = &c.mu
	return c
}

// Do puts a request into the next group and returns its answer once the group has committed. Its errors are the
// database's, the ones of this package, and contention.ErrCrowded.
func (c *Committer[K, Q, R]) Do(ctx context.Context, q Q) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, errors.Join(ErrLeft, err)
	}
	c, err := c.committerOf(ctx, q)
	if err != nil {
		return none, err
	}

	w := newCall[K, Q, R](ctx, q, c.cfg.Key(q), c.tracer != nil)
	if err := c.enter(w); err != nil {
		return none, err
	}
	select {
	case a := <-w.done:
		return a.value, a.err
	case <-ctx.Done():
	}

	return c.leave(w, ctx.Err())
}

// enter puts a call into the lane of its key, if there is one, or else into the queue.
func (c *Committer[K, Q, R]) enter(w *call[K, Q, R]) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return ErrClosed
	}
	if c.waiting.Load() >= int64(c.cfg.Queue) {
		c.metrics.refused.Inc()
		return ErrQueueFull
	}

	c.addWaiting(1)
	if l := c.laneOf(w.key); l != nil {
		c.stand(l, w)
	} else {
		c.push(w)
	}
	return nil
}

// leave ends the wait of a caller whose context has ended, with cause.
func (c *Committer[K, Q, R]) leave(w *call[K, Q, R], cause error) (R, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	select {
	case a := <-w.done: // answered at the same moment: the result is better than a timeout
		return a.value, a.err
	default:
	}

	var none R
	c.givePlace(w)
	if w.state == sent {
		w.abandoned = true // what was sent stands, but is not sent again
		return none, errors.Join(ErrUnknown, cause)
	}
	w.state = finished // the queue and the lanes pass over it
	var nothing Q
	w.request = nothing // its memory is not kept until then
	c.addWaiting(-1)
	return none, errors.Join(ErrLeft, cause)
}

// push appends a call to the queue and makes sure that groups are taken from it. The caller holds c.mu.
func (c *Committer[K, Q, R]) push(w *call[K, Q, R]) {
	c.queue.push(w)
	c.pipeline.came(1)
	if c.running < c.cfg.InFlight {
		c.running++
		go c.serve()
	}
}

// serve sends groups until the queue is empty.
func (c *Committer[K, Q, R]) serve() {
	for more := true; more; {
		more = c.serveNext()
	}
}

// serveNext sends the next group. It returns false when the queue is empty.
func (c *Committer[K, Q, R]) serveNext() bool {
	leave := c.pipeline.enter()
	defer leave()
	c.gather()
	release := c.permits.group()
	defer release()

	c.mu.Lock()
	group := c.take()
	if len(group) == 0 {
		c.running--
		c.signalIdle()
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()

	late := time.AfterFunc(longestTurn, leave)
	defer late.Stop()
	c.commit(group)
	return true
}

// take takes the next group from the queue and marks it sent. A call whose key has got a lane since goes there. The
// caller holds c.mu.
func (c *Committer[K, Q, R]) take() []*call[K, Q, R] {
	var group []*call[K, Q, R]
	before := c.queue.len()
	defer func() { c.pipeline.came(c.queue.len() - before) }()

	bytes := 0
	keys := make(map[K]bool) // of the group, where they are bounded
	for !c.queue.empty() && len(group) < c.cfg.MaxItems {
		w := c.queue.peek()
		if w.state == finished {
			c.queue.pop()
			continue
		}
		if l := c.laneOf(w.key); l != nil {
			c.queue.pop()
			c.stand(l, w)
			continue
		}

		bytes += c.cfg.Size(w.request)
		if len(group) > 0 && bytes > c.cfg.MaxBytes {
			break
		}
		if c.cfg.MaxKeys > 0 {
			if !keys[w.key] && len(keys) == c.cfg.MaxKeys {
				break
			}
			keys[w.key] = true
		}
		c.queue.pop()
		group = append(group, w)
	}

	c.markSent(group)
	return group
}

// markSent marks calls sent: their callers can no longer withdraw them. The caller holds c.mu.
func (c *Committer[K, Q, R]) markSent(group []*call[K, Q, R]) {
	for _, w := range group {
		w.state = sent
	}
	c.addWaiting(-len(group))
}

// finish answers a call. The caller holds c.mu.
func (c *Committer[K, Q, R]) finish(w *call[K, Q, R], a answer[R]) {
	if a.err != nil && w.doubtful {
		a.err = errors.Join(ErrUnknown, a.err) // no refusal tells what became of the earlier sending
	}
	c.givePlace(w)
	w.state = finished
	w.done <- a
}

// addWaiting adds to the number of calls that were not sent. The caller holds c.mu.
func (c *Committer[K, Q, R]) addWaiting(n int) {
	c.waiting.Add(int64(n))
	c.metrics.queue.Add(float64(n))
}

// signalIdle wakes Close when nothing is under way. The caller holds c.mu.
func (c *Committer[K, Q, R]) signalIdle() {
	if c.running == 0 && !c.lanesServe {
		c.idle.Broadcast()
	}
}

// Close refuses new requests and waits until all others are answered. It returns ctx's error when ctx ends first; they
// are answered all the same.
func (c *Committer[K, Q, R]) Close(ctx context.Context) error {
	if c.shards != nil {
		return c.closeShards(ctx)
	}

	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})
	defer stop()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.running > 0 || c.lanesServe {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("groupcommit: %d requests were still waiting: %w", c.waiting.Load(), err)
		}
		c.idle.Wait()
	}
	return nil
}
