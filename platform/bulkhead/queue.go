package bulkhead

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// stuckAfter is how long a caller may be inside before its key counts as stuck.
const stuckAfter = 100 * time.Millisecond

// queue holds the turn of one key's callers; it exists while there are any.
type queue struct {
	turn    turn // of the caller that is inside
	callers int  // guarded by Bulkhead.mu

	since atomic.Int64 // when the caller that is inside entered, by Bulkhead.now; 0: none is
	stuck atomic.Bool
	// places counts those of the share that the key's callers hold.
	places atomic.Int64
}

// now returns the nanoseconds since the bulkhead was created, counted from 1.
func (b *Bulkhead[K]) now() int64 { return int64(time.Since(b.created)) + 1 }

// end ends the turn of the caller that is inside.
func (q *queue) end(now int64, done bool) {
	if done || now-q.since.Load() < int64(stuckAfter) {
		q.stuck.Store(false)
	}
	q.since.Store(0)
}

// stuckIn returns after which time the queue is stuck if the same caller is still inside:
// at most 0 when it is stuck now.
func (q *queue) stuckIn(now int64) time.Duration {
	since := q.since.Load()
	switch {
	case q.stuck.Load():
		return 0
	case since == 0:
		return stuckAfter
	}
	left := stuckAfter - time.Duration(now-since)
	if left <= 0 {
		q.stuck.Store(true)
	}
	return left
}

// waitTurn waits for the caller's turn. It holds a place of the share from the moment when
// the queue is stuck, and returns contention.ErrCrowded when there is none.
func (p *Place[K]) waitTurn(ctx context.Context, d *deadline) error {
	b, q := p.bulkhead, p.queue
	if ctx.Err() != nil {
		return errors.Join(ErrBusy, ctx.Err())
	}
	for wait := q.turn.take(); wait != nil; {
		most := d.left()
		if !p.holds {
			most = min(most, q.stuckIn(b.now()))
		}
		var err error
		switch {
		case most > 0:
			select {
			case <-wait:
				wait = nil
			case <-d.after(most):
			case <-ctx.Done():
				err = errors.Join(ErrBusy, ctx.Err())
			}
		case d.left() <= 0:
			err = ErrBusy
		case !p.Hold():
			err = contention.ErrCrowded
		}
		if err != nil {
			if !q.turn.withdraw(wait) {
				q.turn.pass()
			}
			return err
		}
	}
	q.since.Store(b.now())
	return nil
}

func (b *Bulkhead[K]) join(key K) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[key]
	if !ok {
		q = new(queue)
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
