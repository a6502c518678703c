// Package bulkhead keeps a crowd from taking what everybody needs: the callers
// of one key queue in the process, without a connection, and all keys together
// use no more than a part of the pool. (The pattern's name is Michael Nygard's,
// "Release It!".)
//
// Without it, as many callers as the pool has connections, all waiting for one
// locked row, would stop every other call of the replica.
package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/problem"
)

// ErrBusy says that a caller's turn did not come in time. Its function was not called.
var ErrBusy = errors.New("bulkhead: the turn did not come in time")

// ErrFull is the ErrBusy of a caller whose key was free while all slots were taken
// by other keys.
var ErrFull = fmt.Errorf("%w: all slots are taken", ErrBusy)

// Bulkhead lets one caller per key, and a bounded number of keys, through at a
// time. Make one with New.
type Bulkhead[K comparable] struct {
	slots   chan struct{}
	metrics *contention.Metrics

	mu    sync.Mutex
	lanes map[K]*lane
}

// lane is the queue of one key's callers; it exists while there are any.
type lane struct {
	turn    chan struct{} // holds an element while somebody is inside
	callers int
}

// New returns a bulkhead with this many slots, at least one. The waits for a key
// are noted in m, which may be nil; those for a slot are none for a lock.
func New[K comparable](slots int, m *contention.Metrics) *Bulkhead[K] {
	return &Bulkhead[K]{slots: make(chan struct{}, max(slots, 1)), lanes: make(map[K]*lane), metrics: m}
}

// Do calls f between Enter and Leave. It returns f's error, or Enter's.
func (b *Bulkhead[K]) Do(ctx context.Context, key K, wait time.Duration, f func() error) error {
	place, err := b.Enter(ctx, key, wait)
	if err != nil {
		return err
	}
	defer place.Leave()
	return f()
}

// Place is a caller's place inside the bulkhead.
type Place[K comparable] struct {
	bulkhead *Bulkhead[K]
	key      K
	lane     *lane
}

// Enter waits, for at most wait, until no other caller of the key is inside and a slot
// is free. The caller must then call Leave, once. Otherwise Enter returns ErrBusy
// (ErrFull where a slot was missing), joined with ctx's error if that was the reason.
func (b *Bulkhead[K]) Enter(ctx context.Context, key K, wait time.Duration) (Place[K], error) {
	l := b.join(key)
	p := patience{wait: wait, begin: time.Now()}
	defer p.end()
	err := p.enter(ctx, l.turn, ErrBusy)
	b.metrics.Waited(contention.InProcess, time.Since(p.begin))
	if err != nil {
		b.leave(key, l)
		if ctx.Err() == nil { // a caller that hangs up has not given up for the queue
			b.metrics.Conflict(contention.QueueTimeout)
		}
		return Place[K]{}, err
	}
	if err := p.enter(ctx, b.slots, ErrFull); err != nil {
		<-l.turn
		b.leave(key, l)
		return Place[K]{}, err
	}
	return Place[K]{b, key, l}, nil
}

// Leave lets the next caller in.
func (p Place[K]) Leave() {
	<-p.bulkhead.slots
	<-p.lane.turn
	p.bulkhead.leave(p.key, p.lane)
}

// patience is what is left of a caller's wait. Its timer is made when there is
// something to wait for: most callers walk through.
type patience struct {
	wait  time.Duration
	begin time.Time
	timer *time.Timer
}

// enter puts an element into the gate, or fails by refusal when the time or ctx
// is over.
func (p *patience) enter(ctx context.Context, gate chan<- struct{}, refusal error) error {
	if ctx.Err() != nil { // with a free gate, select would toss a coin
		return errors.Join(refusal, ctx.Err())
	}
	select {
	case gate <- struct{}{}:
		return nil
	default:
	}
	if p.timer == nil {
		p.timer = time.NewTimer(p.wait - time.Since(p.begin))
	}
	select {
	case gate <- struct{}{}:
		return nil
	case <-p.timer.C:
		return refusal
	case <-ctx.Done():
		return errors.Join(refusal, ctx.Err())
	}
}

func (p *patience) end() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (b *Bulkhead[K]) join(key K) *lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.lanes[key]
	if !ok {
		l = &lane{turn: make(chan struct{}, 1)}
		b.lanes[key] = l
	}
	l.callers++
	return l
}

func (b *Bulkhead[K]) leave(key K, l *lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.callers--
	if l.callers == 0 {
		delete(b.lanes, key)
	}
}

// Problem translates this package's error for an API; it returns nil for any other.
func Problem(err error) *problem.Error {
	if !errors.Is(err, ErrBusy) {
		return nil
	}
	return problem.NotApplied.New("Other changes of the same record are in the way for too long. Nothing was applied; try again.",
		problem.Cause(err))
}
