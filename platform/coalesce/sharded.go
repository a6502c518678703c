package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// stallAfter is how long a statement of a lane may take, beyond its wait for locks, until the lane counts as stalled.
const stallAfter = 500 * time.Millisecond

// Sharded gathers requests lane by lane: each shard of a distributed table has a [Coalescer] of its own, because a
// statement for one shard goes to one server, and is applied or not whatever becomes of those for others.
//
// The coalescers share the metrics, and the places of the statements that run at once. Those for one server take half
// of the places at most, so that a server which does not answer leaves the others to those that do. Of all places and
// of those of a server, statements that wait for locked rows take half. A lane is stalled while a statement of it has
// not been answered for half a second, nor has come to run. Its callers that wait to be sent then need a place of
// [Limits.Share] each, and are refused without one ([contention.ErrCrowded]), so that they do not take the replica from
// the others. [Config.Queue] and [Config.InFlight] bound each lane.
type Sharded[K comparable, Q, R any] struct {
	cfg     Config[K, Q, R]
	metrics *metrics
	all     places

	mu      sync.Mutex
	lanes   map[sqldb.Shard]*shardLane[K, Q, R]
	servers map[int64]places
	closed  bool
}

// places bounds the statements that run at once.
type places struct {
	running chan struct{} // has an element for each of them
	waiting chan struct{} // has one for each that waits for a row which is known as locked; a single place is for none
}

func newPlaces(n int) places { return places{make(chan struct{}, n), make(chan struct{}, n/2)} }

// shardLane is the coalescer of one lane.
type shardLane[K comparable, Q, R any] struct {
	*Coalescer[K, Q, R]

	server places
}

// ofOneServer returns how many of the statements that run at once may be for one server.
func ofOneServer(atOnce int) int { return (atOnce + 1) / 2 }

// NewSharded checks cfg and returns a Sharded of which so many statements run at once.
func NewSharded[K comparable, Q, R any](cfg Config[K, Q, R], atOnce int) (*Sharded[K, Q, R], error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if atOnce < 1 || cfg.Gate != nil || cfg.Others != nil {
		return nil, errors.New("coalesce: a Sharded needs places, and takes neither Gate nor Others")
	}
	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("coalesce: register the metrics of %s: %w", cfg.Name, err)
	}
	return &Sharded[K, Q, R]{
		cfg: cfg, metrics: m, all: newPlaces(atOnce),
		lanes: make(map[sqldb.Shard]*shardLane[K, Q, R]), servers: make(map[int64]places),
	}, nil
}

// Do is [Coalescer.Do] in the lane of a shard.
func (s *Sharded[K, Q, R]) Do(ctx context.Context, of sqldb.Shard, q Q) (R, error) {
	var zero R
	lane := s.lane(of)
	if lane == nil {
		return zero, ErrClosed
	}
	return lane.Do(ctx, q)
}

// lane returns the coalescer of a lane, nil when s is closed.
func (s *Sharded[K, Q, R]) lane(of sqldb.Shard) *shardLane[K, Q, R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	lane := s.lanes[of]
	if lane == nil {
		server, known := s.servers[of.Server]
		if !known {
			server = newPlaces(ofOneServer(cap(s.all.running)))
			s.servers[of.Server] = server
		}
		lane = &shardLane[K, Q, R]{server: server}
		cfg := s.cfg
		cfg.Run = s.runIn(lane)
		lane.Coalescer = start(cfg, s.metrics)
		s.lanes[of] = lane
	}
	return lane
}

// runIn returns Config.Run for a lane: it waits for its places, and notes how long the server takes.
func (s *Sharded[K, Q, R]) runIn(lane *shardLane[K, Q, R]) func(context.Context, Pass, []Q) ([]Answer[R], error) {
	return func(ctx context.Context, pass Pass, group []Q) ([]Answer[R], error) {
		if pass.Wait > s.cfg.BriefWait {
			release, ok := hold(s.cfg.BriefWait, lane.server.waiting, s.all.waiting)
			defer release()
			if !ok {
				pass = Pass{SkipLocked: true} // the row may have come free meanwhile
			}
		}
		timer := time.AfterFunc(pass.Wait+stallAfter, lane.stall)
		defer func() {
			if !timer.Stop() {
				lane.unstall()
			}
		}()
		release, ok := hold(s.cfg.LockTimeout, lane.server.running, s.all.running)
		defer release()
		if !ok {
			return nil, ErrQueueFull
		}
		// The time that the places took is not the statement's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.runTimeout())
		defer cancel()
		return s.cfg.Run(ctx, pass, group)
	}
}

// hold puts an element into each channel, or into none and reports false when there is no room in time. release takes
// them out.
func hold(within time.Duration, rooms ...chan struct{}) (release func(), ok bool) {
	until, taken := time.Now().Add(within), 0
	release = func() {
		for _, room := range rooms[:taken] {
			<-room
		}
	}
	for _, room := range rooms {
		if !take(room, time.Until(until)) {
			release()
			return func() {}, false
		}
		taken++
	}
	return release, true
}

// take puts an element into a channel, and reports false when there is no room in time.
func take(room chan<- struct{}, within time.Duration) bool {
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case room <- struct{}{}:
		return true
	case <-limit.C:
		return false
	}
}

// Close is [Coalescer.Close] of all lanes.
func (s *Sharded[K, Q, R]) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	lanes := s.lanes
	s.mu.Unlock()
	var err error
	for _, lane := range lanes {
		err = errors.Join(err, lane.Close(ctx))
	}
	return err
}
