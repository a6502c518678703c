// Package bulkhead limits how much of the connection pool and of the request slots the
// callers of locked rows use: the callers of one key queue in the process, without a
// connection; all keys together use no more than a part of the pool; those that wait for a
// lock that another session holds use no more than a part of that, and no more than a
// share of the replica's requests. (The pattern's name is Michael Nygard's, "Release It!".)
//
// Without it, as many callers as the pool has connections, all waiting for one
// locked row, would stop every other call of the replica.
//
// # Stuck keys
//
// A key whose caller is inside for longer than 100 ms while others wait is stuck: its row
// is locked by another session, its pot is leased, its payment is being charged. From then
// on callers that wait for the key hold a place of the [contention.Share], and those that
// get none are refused at once, until a caller leaves without an error or within that time.
// Callers of a key that is merely busy are not refused.
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
	patient chan struct{} // holds an element for each slot whose caller waits for a lock
	metrics *contention.Metrics
	share   *contention.Share
	created time.Time // the clock of queue.since begins here

	mu     sync.Mutex
	queues map[K]*queue
}

// New returns a bulkhead with this many slots, at least one. It records the waits for
// a key in m, which may be nil; waits for a slot are not waits for a lock. Callers of stuck
// keys hold places of share, which may be nil.
func New[K comparable](slots int, m *contention.Metrics, share *contention.Share) *Bulkhead[K] {
	slots = max(slots, 1)
	return &Bulkhead[K]{
		slots: make(chan struct{}, slots), patient: make(chan struct{}, max(slots/2, 1)), metrics: m, share: share,
		created: time.Now(), queues: make(map[K]*queue),
	}
}

// Place is the admission of one caller, returned by Enter.
type Place[K comparable] struct {
	bulkhead *Bulkhead[K]
	key      K
	queue    *queue
	holds    bool // a place of the share
}

// Enter waits, for at most wait, until no other caller of the key is inside and a slot
// is free. The caller must then call Leave, once. Otherwise Enter returns ErrBusy
// (ErrFull where a slot was missing), joined with ctx's error if that was the reason, or
// contention.ErrCrowded.
func (b *Bulkhead[K]) Enter(ctx context.Context, key K, wait time.Duration) (Place[K], error) {
	d := deadline{wait: wait, begin: time.Now()}
	defer d.stop()
	return b.enter(ctx, key, &d)
}

// Busy reports whether a caller of the key is inside, or waits.
func (b *Bulkhead[K]) Busy(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queues[key] != nil
}

func (b *Bulkhead[K]) enter(ctx context.Context, key K, d *deadline) (Place[K], error) {
	p := Place[K]{bulkhead: b, key: key, queue: b.join(key)}
	err := p.waitTurn(ctx, d)
	b.metrics.Waited(contention.InProcess, time.Since(d.begin))
	if err != nil {
		p.drop()
		b.leave(key, p.queue)
		if ctx.Err() == nil && errors.Is(err, ErrBusy) { // a cancelled caller did not give up because of the queue
			b.metrics.Conflict(contention.QueueTimeout)
		}
		return Place[K]{}, err
	}
	if err := d.enter(ctx, b.slots, ErrFull); err != nil {
		p.endTurn(false)
		return Place[K]{}, err
	}
	return p, nil
}

// Hold takes a place of the share, until Leave, for a caller that knows that another session
// holds its key. It returns false when none is free: the caller should then leave with
// contention.ErrCrowded.
func (p *Place[K]) Hold() bool {
	if !p.holds {
		before := p.queue.places.Add(1) - 1
		if p.holds = p.bulkhead.share.Take(int(before)); !p.holds {
			p.queue.places.Add(-1)
		}
	}
	return p.holds
}

// drop gives the place of the share back, if there is one.
func (p *Place[K]) drop() {
	if p.holds {
		p.holds = false
		p.queue.places.Add(-1)
		p.bulkhead.share.Give()
	}
}

// Leave admits the next caller. done says that the caller has had what the key locks, so
// that the key is no longer stuck.
func (p *Place[K]) Leave(done bool) {
	<-p.bulkhead.slots
	p.endTurn(done)
}

func (p *Place[K]) endTurn(done bool) {
	p.drop()
	p.queue.end(p.bulkhead.now(), done)
	p.queue.turn.pass()
	p.bulkhead.leave(p.key, p.queue)
}

// briefWait is how long a call of Do first waits for locks: as long as a group does
// (platform/coalesce).
const briefWait = 50 * time.Millisecond

// Do calls f when the caller has a turn and a slot, with the time for which it may wait for
// a lock: first briefly. When f then returns an error that timedOut reports, it has not been
// applied and another session holds the lock: Do calls f again with all of wait, in
// one of the half of the slots in which callers may wait for locks, while the caller holds a
// place of the share. So callers of locked keys, however many keys there are, leave slots to
// others. Do returns f's error or Enter's.
func (b *Bulkhead[K]) Do(
	ctx context.Context, key K, wait time.Duration, f func(lockWait time.Duration) error, timedOut func(error) bool,
) (err error) {
	d := deadline{wait: wait, begin: time.Now()}
	defer d.stop()
	place, err := b.enter(ctx, key, &d)
	if err != nil {
		return err
	}
	done, inSlot := false, true // after a panic, too
	defer func() {
		if inSlot {
			<-b.slots
		}
		place.endTurn(done)
	}()
	if err = f(min(briefWait, wait)); !timedOut(err) || d.left() <= 0 {
		done = err == nil
		return err
	}
	<-b.slots
	inSlot = false
	if !place.Hold() {
		return contention.ErrCrowded
	}
	if err := d.enter(ctx, b.patient, ErrFull); err != nil {
		return err
	}
	defer func() { <-b.patient }()
	if err := d.enter(ctx, b.slots, ErrFull); err != nil {
		return err
	}
	inSlot = true
	err = f(wait)
	done = err == nil
	return err
}

// deadline bounds a caller's wait. Its timer is created only when the caller has to
// wait, which most callers do not.
type deadline struct {
	wait  time.Duration
	begin time.Time
	timer *time.Timer
}

func (d *deadline) left() time.Duration { return d.wait - time.Since(d.begin) }

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
	select {
	case gate <- struct{}{}:
		return nil
	case <-d.after(d.left()):
		return refusal
	case <-ctx.Done():
		return errors.Join(refusal, ctx.Err())
	}
}

// after returns a channel that gets an element after a time; the one before gets none any more.
func (d *deadline) after(wait time.Duration) <-chan time.Time {
	if d.timer == nil {
		d.timer = time.NewTimer(wait)
	} else {
		d.timer.Reset(wait)
	}
	return d.timer.C
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
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
