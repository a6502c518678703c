// Package bulkhead limits how much of the connection pool the callers of locked rows
// use: the callers of one key queue in the process, without a connection, and all
// keys together use no more than a part of the pool. (The pattern's name is Michael
// Nygard's, "Release It!".)
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

// ErrBusy means that a caller's turn did not come in time. Its function was not called.
var ErrBusy = errors.New("bulkhead: the turn did not come in time")

// ErrFull wraps ErrBusy. It means that the caller's key was free and other keys held
// all slots.
var ErrFull = fmt.Errorf("%w: all slots are taken", ErrBusy)

// Bulkhead admits one caller per key, and a bounded number of keys, at a time. New
// returns one.
type Bulkhead[K comparable] struct {
	slots   chan struct{}
	metrics *contention.Metrics

	mu     sync.Mutex
	queues map[K]*queue
}

// queue holds the turn of one key's callers; it exists while there are any.
type queue struct {
	turn    chan struct{} // holds an element while a caller is inside
	callers int
}

// New returns a bulkhead with this many slots, at least one. It records the waits for
// a key in m, which may be nil; waits for a slot are not waits for a lock.
func New[K comparable](slots int, m *contention.Metrics) *Bulkhead[K] {
	return &Bulkhead[K]{slots: make(chan struct{}, max(slots, 1)), queues: make(map[K]*queue), metrics: m}
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

// Place is the admission of one caller, returned by Enter.
type Place[K comparable] struct {
	bulkhead *Bulkhead[K]
	key      K
	queue    *queue
}

// Enter waits, for at most wait, until no other caller of the key is inside and a slot
// is free. The caller must then call Leave, once. Otherwise Enter returns ErrBusy
// (ErrFull where a slot was missing), joined with ctx's error if that was the reason.
func (b *Bulkhead[K]) Enter(ctx context.Context, key K, wait time.Duration) (Place[K], error) {
	q := b.join(key)
	d := deadline{wait: wait, begin: time.Now()}
	defer d.stop()
	err := d.enter(ctx, q.turn, ErrBusy)
	b.metrics.Waited(contention.InProcess, time.Since(d.begin))
	if err != nil {
		b.leave(key, q)
		if ctx.Err() == nil { // a cancelled caller did not give up because of the queue
			b.metrics.Conflict(contention.QueueTimeout)
		}
		return Place[K]{}, err
	}
	if err := d.enter(ctx, b.slots, ErrFull); err != nil {
		<-q.turn
		b.leave(key, q)
		return Place[K]{}, err
	}
	return Place[K]{b, key, q}, nil
}

// Leave admits the next caller.
func (p Place[K]) Leave() {
	<-p.bulkhead.slots
	<-p.queue.turn
	p.bulkhead.leave(p.key, p.queue)
}

// deadline bounds a caller's wait. Its timer is created only when the caller has to
// wait, which most callers do not.
type deadline struct {
	wait  time.Duration
	begin time.Time
	timer *time.Timer
}

// enter puts an element into the gate. It returns refusal when the time is over, joined
// with ctx's error when ctx ended first.
func (d *deadline) enter(ctx context.Context, gate chan<- struct{}, refusal error) error {
	if ctx.Err() != nil { // with a free gate, select would choose at random
		return errors.Join(refusal, ctx.Err())
	}
	select {
	case gate <- struct{}{}:
		return nil
	default:
	}
	if d.timer == nil {
		d.timer = time.NewTimer(d.wait - time.Since(d.begin))
	}
	select {
	case gate <- struct{}{}:
		return nil
	case <-d.timer.C:
		return refusal
	case <-ctx.Done():
		return errors.Join(refusal, ctx.Err())
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (b *Bulkhead[K]) join(key K) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[key]
	if !ok {
		q = &queue{turn: make(chan struct{}, 1)}
		b.queues[key] = q
	}
	q.callers++
	return q
}

func (b *Bulkhead[K]) leave(key K, q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.callers--
	if q.callers == 0 {
		delete(b.queues, key)
	}
}

// Problem translates this package's error for an API; it returns nil for any other.
func Problem(err error) *problem.Error {
	if !errors.Is(err, ErrBusy) {
		return nil
	}
	return problem.NotApplied.New(
		"Other changes of the same record are in the way for too long. Nothing was applied; try again.",
		problem.Cause(err))
}
