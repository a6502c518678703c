package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Committer sends groups of requests. New returns one. It runs no goroutine while no request waits. Where the slots are
// distributed, it has a committer for each shard.
type Committer[K comparable, Q, R any] struct {
	*shared
	permits

	cfg      Config[K, Q, R]
	pipeline *Pipeline // Config.Pipeline, or one with one stage
	// aside sends the requests for places that have a locked row, so that requests for other places are not in their
	// groups. It is nil in a committer that is one.
	aside *Committer[K, Q, R]

	// All below is guarded by mu. The first two are nil on one server, and in the committer of a shard.
	shards  map[sqldb.Shard]*Committer[K, Q, R]
	servers map[int64]permits

	queue      []*call[K, Q, R]     // in order of arrival
	lanes      map[K]*lane[K, Q, R] // of the keys that are known to be locked
	locked     map[string]time.Time // the places of the lanes, until when they count; shared with aside
	turns      []K                  // the lanes with callers; the first one is waited for next
	running    int                  // groups of the queue under way
	lanesServe bool                 // a goroutine serves the lanes
	patience   patience
}

// shared is the state that the committers of all shards share.
type shared struct {
	metrics *metrics
	tracer  trace.Tracer // nil where tracing is off
	serving sync.WaitGroup

	mu      sync.Mutex
	active  int // goroutines of serving
	waiting int // calls that were not sent, in queues and lanes
	closed  bool
}

// permits bound the groups under way on one server of a cluster, so that a server which does not answer leaves the
// pool's connections to others. Nil permits, of one server alone, bound nothing: Limits.InFlight does.
type permits struct{ forGroups, forLanes *semaphore.Weighted }

// permit waits for a permit and returns the function that gives it back.
func permit(of *semaphore.Weighted) (release func()) {
	if of == nil {
		return func() {}
	}
	_ = of.Acquire(context.Background(), 1) // each sending ends within Limits.Timeout
	return func() { of.Release(1) }
}

// state is the progress of a call. It changes only under mu.
type state uint8

const (
	queued    state = iota // in the queue or a lane: its caller may withdraw it
	sent                   // in a group that is under way
	abandoned              // sent, and its caller got ErrUnknown
	finished               // answered, or withdrawn
)

// call is one caller's request.
type call[K comparable, Q, R any] struct {
	request Q
	key     K
	since   time.Time      // when its caller came: LockTimeout counts from here
	done    chan answer[R] // buffered: an answer never waits for the caller
	state   state

	tries    int        // that found its key locked
	hasShare bool       // it has a permit of Limits.Share
	inLane   bool       // it has stood in a lane
	wasSent  bool       // it was in a group that was sent
	doubtful bool       // an earlier sending by Repeat may have been applied; used only by the goroutine of its group
	span     trace.Span // the request's own; nil when it is not recorded
}

// answer is the result of a call.
type answer[R any] struct {
	value R
	err   error
}

// start returns the committer of one server or one shard.
func start[K comparable, Q, R any](cfg Config[K, Q, R], s *shared, p permits) *Committer[K, Q, R] {
	locked := make(map[string]time.Time)
	one := func(aside *Committer[K, Q, R]) *Committer[K, Q, R] {
		return &Committer[K, Q, R]{
			shared: s, permits: p, cfg: cfg, pipeline: cmp.Or(cfg.Pipeline, new(Pipeline)), aside: aside,
			lanes: make(map[K]*lane[K, Q, R]), locked: locked,
		}
	}
	return one(one(nil))
}

// Do puts a request into the next group and returns its answer once the group has committed. Its errors are the
// database's, the ones of this package, and contention.ErrCrowded.
func (c *Committer[K, Q, R]) Do(ctx context.Context, q Q) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, errors.Join(ErrLeft, err)
	}
	c, err = c.committerOf(ctx, q)
	if err != nil {
		return result, err
	}

	w := &call[K, Q, R]{request: q, key: c.cfg.Key(q), since: time.Now(), done: make(chan answer[R], 1)}
	if span := trace.SpanFromContext(ctx); c.tracer != nil && span.IsRecording() {
		w.span = span
	}
	if err := c.enter(w); err != nil {
		return result, err
	}

	select {
	case a := <-w.done:
		return a.value, a.err
	case <-ctx.Done():
		return c.leave(w, ctx.Err())
	}
}

// committerOf returns the committer of a request's shard, and makes it for the first one.
func (c *Committer[K, Q, R]) committerOf(ctx context.Context, q Q) (*Committer[K, Q, R], error) {
	if c.shards == nil {
		return c, nil
	}
	shard, err := c.cfg.Slots.shardOf(ctx, c.cfg.Place(q))
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.shards[shard]; of != nil {
		return of, nil
	}

	server, known := c.servers[shard.Server]
	if !known {
		n := int64(c.cfg.Permits)
		server = permits{semaphore.NewWeighted(n), semaphore.NewWeighted(max(n/2, 1))}
		c.servers[shard.Server] = server
	}
	of := start(c.cfg, c.shared, server)
	c.shards[shard] = of
	return of, nil
}

// enter puts a call where it waits for its group.
func (c *Committer[K, Q, R]) enter(w *call[K, Q, R]) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return ErrClosed
	}
	if c.waiting >= c.cfg.Queue {
		c.metrics.refused.Inc()
		return ErrQueueFull
	}

	c.addWaiting(1)
	if !c.divert(w) {
		c.push(w)
	}
	return nil
}

// divert puts a call into the lane of its key, if there is one, or else into the queue of aside, if another row of its
// place is locked: a session that holds one may hold thousands. It reports whether it did. The caller holds c.mu.
func (c *Committer[K, Q, R]) divert(w *call[K, Q, R]) bool {
	if l := c.laneOf(w.key); l != nil {
		c.stand(l, len(l.calls), w)
		return true
	}
	if c.aside != nil && time.Now().Before(c.locked[c.cfg.Place(w.request)]) {
		c.aside.push(w)
		return true
	}
	return false
}

// leave ends the wait of a caller whose context has ended, with cause.
func (c *Committer[K, Q, R]) leave(w *call[K, Q, R], cause error) (none R, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	select {
	case a := <-w.done: // answered at the same moment: the result is better than a timeout
		return a.value, a.err
	default:
	}

	c.giveShare(w)
	if w.state == sent {
		w.state = abandoned // the request stands, but is not sent again
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
	c.queue = append(c.queue, w)
	c.pipeline.came(1)
	if c.running < c.cfg.InFlight {
		c.running++
		c.start(c.serve)
	}
}

// start runs f, for which Close waits. The caller holds s.mu.
func (s *shared) start(f func()) {
	s.active++
	s.serving.Go(func() {
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.active--
	})
}

// serve sends groups until the queue is empty.
func (c *Committer[K, Q, R]) serve() {
	for c.serveNext() {
	}
}

// serveNext sends the next group. It returns false when the queue is empty.
func (c *Committer[K, Q, R]) serveNext() bool {
	leave := c.pipeline.enter()
	defer leave()
	c.gather()
	release := permit(c.forGroups)
	defer release()

	group := c.take()
	if len(group) == 0 {
		return false
	}
	late := time.AfterFunc(longestTurn, leave)
	defer late.Stop()
	c.commit(group)
	return true
}

// take takes the next group from the queue and marks it sent. Calls that have got another place to wait since go there.
// When the queue is empty it ends the service.
func (c *Committer[K, Q, R]) take() (group []*call[K, Q, R]) {
	c.mu.Lock()
	defer c.mu.Unlock()

	taken, bytes := 0, 0
	keys := make(map[K]bool) // of the group, where they are bounded
	for _, w := range c.queue {
		if w.state == finished {
			taken++
			continue
		}
		if c.divert(w) {
			taken++
			continue
		}

		bytes += c.cfg.Size(w.request)
		if c.cfg.MaxKeys > 0 {
			keys[w.key] = true
		}
		full := len(group) == maxItems || bytes > maxBytes || len(keys) > c.cfg.MaxKeys
		if full && len(group) > 0 {
			break
		}
		taken++
		group = append(group, w)
	}

	c.queue = slices.Delete(c.queue, 0, taken)
	c.pipeline.came(-taken)
	c.markSent(group)
	if len(group) == 0 {
		c.running--
	}
	return group
}

// markSent marks calls sent: their callers can no longer withdraw them. It records how long each has waited for its
// first sending. The caller holds c.mu.
func (c *Committer[K, Q, R]) markSent(group []*call[K, Q, R]) {
	now := time.Now()
	for _, w := range group {
		w.state = sent
		if !w.wasSent {
			w.wasSent = true
			c.metrics.wait.Observe(now.Sub(w.since).Seconds())
		}
	}
	c.addWaiting(-len(group))
}

// finish answers a call, and records the whole wait of one that has stood in a lane. The caller holds c.mu.
func (c *Committer[K, Q, R]) finish(w *call[K, Q, R], a answer[R]) {
	if a.err != nil && w.doubtful {
		a.err = errors.Join(ErrUnknown, a.err) // a refusal does not tell the outcome of the earlier sending
	}
	if w.inLane {
		where := contention.InLane
		if c.cfg.Held {
			where = contention.InProcess
		}
		c.cfg.Contention.Waited(where, time.Since(w.since))
	}

	c.giveShare(w)
	w.state = finished
	w.done <- a
}

// addWaiting adds to the number of calls that were not sent. The caller holds c.mu.
func (c *Committer[K, Q, R]) addWaiting(n int) {
	c.waiting += n
	c.metrics.queue.Add(float64(n))
}

// Close refuses new requests and waits until all others are answered. It returns ctx's error when ctx ends first; they
// are answered all the same.
func (c *Committer[K, Q, R]) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		c.serving.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == 0 {
		return nil // nothing had to be waited for
	}
	return fmt.Errorf("groupcommit: %d requests were still waiting: %w", c.waiting, ctx.Err())
}
