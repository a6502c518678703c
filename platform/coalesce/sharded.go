package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// stallAfter is how long a statement of a shard may run, beyond its wait for locks, until the shard counts as stalled.
const stallAfter = 500 * time.Millisecond

// Sharded gathers requests S by S, the shard of a distributed table: each shard has a [Coalescer] of its own, because a
// statement for one shard goes to one server, and is applied or not whatever becomes of those for others.
//
// The coalescers share the metrics, and the places of the statements that run at once, of which those that wait for
// locked rows take half. A shard with a statement that
// has not come back for half a second is stalled: its server does not answer. Callers that come to a stalled shard need
// a place of [Limits.Share] each, and are refused without one ([contention.ErrCrowded]), so that they do not take the
// replica from the callers of the other servers. [Config.Queue] bounds each shard.
type Sharded[S, K comparable, Q, R any] struct {
	cfg     Config[K, Q, R]
	metrics *metrics
	places  chan struct{} // an element for each statement that runs
	waits   chan struct{} // an element for each that waits for a row which is known as locked

	mu     sync.Mutex
	shards map[S]*shard[K, Q, R]
	closed bool
}

// shard is the coalescer of one shard.
type shard[K comparable, Q, R any] struct {
	*Coalescer[K, Q, R]

	late atomic.Int64 // statements that have run for too long
	held atomic.Int64 // places of Limits.Share that its callers have
}

// NewSharded checks cfg and returns a Sharded of which places statements run at once.
func NewSharded[S, K comparable, Q, R any](cfg Config[K, Q, R], places int) (*Sharded[S, K, Q, R], error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if places < 1 || cfg.Gate != nil || cfg.Others != nil {
		return nil, errors.New("coalesce: a Sharded needs places, and takes neither Gate nor Others")
	}
	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("coalesce: register the metrics of %s: %w", cfg.Name, err)
	}
	return &Sharded[S, K, Q, R]{
		cfg: cfg, metrics: m, shards: make(map[S]*shard[K, Q, R]),
		places: make(chan struct{}, places), waits: make(chan struct{}, max(places/2, 1)),
	}, nil
}

// Do is [Coalescer.Do] on a shard.
func (s *Sharded[S, K, Q, R]) Do(ctx context.Context, of S, q Q) (R, error) {
	var zero R
	on := s.shard(of)
	if on == nil {
		return zero, ErrClosed
	}
	if on.late.Load() > 0 {
		if !s.cfg.Share.Take(int(on.held.Load())) {
			return zero, contention.ErrCrowded
		}
		on.held.Add(1)
		defer func() {
			on.held.Add(-1)
			s.cfg.Share.Give()
		}()
	}
	return on.Do(ctx, q)
}

// shard returns the coalescer of a shard, nil when s is closed.
func (s *Sharded[S, K, Q, R]) shard(of S) *shard[K, Q, R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	on := s.shards[of]
	if on == nil {
		on = new(shard[K, Q, R])
		cfg := s.cfg
		cfg.Run = s.runOn(on)
		on.Coalescer = start(cfg, s.metrics)
		s.shards[of] = on
	}
	return on
}

// runOn returns Config.Run for a shard: it waits for a place, and notes how long the statement takes.
func (s *Sharded[S, K, Q, R]) runOn(on *shard[K, Q, R]) func(context.Context, Pass, []Q) ([]Answer[R], error) {
	return func(ctx context.Context, pass Pass, group []Q) ([]Answer[R], error) {
		timer := time.AfterFunc(pass.Wait+stallAfter, func() { on.late.Add(1) })
		defer func() {
			if !timer.Stop() {
				on.late.Add(-1)
			}
		}()
		if pass.Wait > s.cfg.BriefWait {
			if !take(s.waits, pass.Wait) {
				return nil, ErrLockWait
			}
			defer func() { <-s.waits }()
		}
		if !take(s.places, s.cfg.LockTimeout) {
			return nil, ErrQueueFull
		}
		defer func() { <-s.places }()
		// The time that the place took is not the statement's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.runTimeout())
		defer cancel()
		return s.cfg.Run(ctx, pass, group)
	}
}

// take puts an element into a channel, and reports false when there is no room in time.
func take(places chan<- struct{}, within time.Duration) bool {
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-limit.C:
		return false
	}
}

// Close is [Coalescer.Close] of all shards.
func (s *Sharded[S, K, Q, R]) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	shards := s.shards
	s.mu.Unlock()
	var err error
	for _, on := range shards {
		err = errors.Join(err, on.Close(ctx))
	}
	return err
}
