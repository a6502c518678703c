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

// Do calls f when no other caller of the key is inside and a slot is free. It
// returns f's error, or, when the turn did not come within wait, ErrBusy (ErrFull
// where a slot was missing), joined with ctx's error if that was the reason.
func (b *Bulkhead[K]) Do(ctx context.Context, key K, wait time.Duration, f func() error) error {
	l := b.join(key)
	defer b.leave(key, l)
	p := patience{wait: wait, begin: time.Now()}
	defer p.end()
	err := p.enter(ctx, l.turn, ErrBusy)
	b.metrics.Waited(contention.InProcess, time.Since(p.begin))
	if err != nil {
		if ctx.Err() == nil { // who hangs up has not given up for the queue
			b.metrics.Conflict(contention.QueueTimeout)
		}
		return err
	}
	defer func() { <-l.turn }()
	if err := p.enter(ctx, b.slots, ErrFull); err != nil {
		return err
	}
	defer func() { <-b.slots }()
	return f()
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
