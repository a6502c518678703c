package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// knownAfter is how long a pot is found held before its callers need a place of Limits.Share: replicas lease a pot that
// they share for milliseconds.
const knownAfter = 50 * time.Millisecond

// queue holds the callers of one pot, from the first one's arrival until there are none. One goroutine serves it: one
// lease after the other, each for all callers that have come until the pot is read.
type queue struct {
	id pot.ID

	// Guarded by Store.mu.
	waiting []*call       // in order of arrival
	sent    []*call       // those of the group that is being written
	places  int           // of Limits.Share that the callers hold
	asked   time.Time     // when the pot's lease was first asked for; zero: not since it was last changed
	held    time.Time     // when the pot was first found held; zero: not since it was last changed
	empty   chan struct{} // has an element when the last caller left

	// Of the goroutine that serves the queue.
	lease    *lease // nil: none
	before   pot.Pot
	after    pot.Contents
	recorded bool // the wait for a lease, since asked
}

// call is one caller's change.
type call struct {
	change func(pot.Pot) (pot.Contents, error)
	done   chan error // has room for the answer
	span   trace.Span // the request's; nil when not recorded

	err   error // the caller's answer: nil, the refusal of change, or the error of its last try
	tries int   // for a lease, that failed
	begun bool  // had come when a try began

	// Guarded by Store.mu.
	isSent    bool
	abandoned bool // its caller left while it was sent
	place     bool // of Limits.Share
}

// Change implements pot.Repository. Callers of one pot share a lease and a commit, in which their changes follow one
// another in order of arrival; callers of different pots share statements. A pot that another session has leased, or
// whose row it has locked, delays its own callers alone. Change returns contention.ErrCrowded when too many wait for
// such pots, and coalesce.ErrUnknown when ctx ends while the change is written.
func (s *Store) Change(ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
	}
	c := &call{change: change, done: make(chan error, 1), span: recordedSpan(ctx)}
	q, err := s.enter(id, c)
	if err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return s.leave(ctx, q, c)
	}
}

// enter appends c to the pot's queue and makes sure that a goroutine serves it.
func (s *Store) enter(id pot.ID, c *call) (*queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[id]
	if q == nil {
		q = &queue{id: id, waiting: []*call{c}, empty: make(chan struct{}, 1)}
		s.queues[id] = q
		go s.serve(q)
		return q, nil
	}
	if q.isHeld() && !s.takePlace(q, c) {
		return nil, contention.ErrCrowded
	}
	q.waiting = append(q.waiting, c)
	return q, nil
}

// leave withdraws c, whose ctx has ended, unless it is answered or sent.
func (s *Store) leave(ctx context.Context, q *queue, c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-c.done: // answered at the same moment
		return err
	default:
	}
	if c.isSent {
		c.abandoned = true
		return errors.Join(coalesce.ErrUnknown, ctx.Err())
	}
	s.givePlace(q, c)
	q.waiting = slices.DeleteFunc(q.waiting, func(other *call) bool { return other == c })
	if len(q.waiting) == 0 {
		select {
		case q.empty <- struct{}{}:
		default:
		}
	}
	return fmt.Errorf("%w: %w", pot.ErrTimeOver, ctx.Err())
}

// serve leases and changes the pot until its queue is empty. A pot that a group found held is tried again at once, in a
// lane in which the statement waits for the end of the holder's; if that holds it still, every RetryWait.
func (s *Store) serve(q *queue) {
	var timer *time.Timer
	for lane := s.groups; ; {
		begin := time.Now()
		_, err := lane.Do(s.beginTry(q), q)
		again, left := s.endTry(q, err)
		switch {
		case left == 0:
			if q.lease != nil {
				s.release(context.Background(), q)
			}
			return
		case !again:
			lane = s.groups
		case lane == s.groups:
			lane = s.contended
		default:
			timer = pause(q, timer, jitter(s.options.RetryWait)-time.Since(begin))
		}
	}
}

// pause waits, or until the last caller has left. It returns the one timer of all pauses.
func pause(q *queue, timer *time.Timer, wait time.Duration) *time.Timer {
	if timer == nil {
		timer = time.NewTimer(wait)
	} else {
		timer.Reset(wait)
	}
	select {
	case <-timer.C:
	case <-q.empty:
		timer.Stop()
	}
	return timer
}

// jitter returns d, half more or less, so that replicas do not try at the same moment again.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

// beginTry notes when the pot's lease is first asked for, and for whom. It returns a context with the span of the first
// caller.
func (s *Store) beginTry(q *queue) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.asked.IsZero() {
		q.asked, q.recorded = time.Now(), false
	}
	for _, c := range q.waiting {
		c.begun = true
	}
	if len(q.waiting) == 0 || q.waiting[0].span == nil {
		return context.Background()
	}
	return trace.ContextWithSpan(context.Background(), q.waiting[0].span)
}

// endTry answers the callers whose change is stored, or cannot be. It returns whether the pot could not be had, and how
// many callers are left; without one it forgets the queue. A wait that ends is recorded before the answers, so that the
// callers find it in the metrics.
func (s *Store) endTry(q *queue, err error) (again bool, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []*call
	if again = errors.Is(err, errHeld) || errors.Is(err, errLost) || errors.Is(err, errUnsure); again {
		over = s.tryAgain(q, err)
	} else {
		over = s.end(q, err)
	}
	left = len(q.waiting)
	if !again || left == 0 {
		s.recordWait(q)
		q.asked, q.held = time.Time{}, time.Time{}
	}
	if left == 0 {
		delete(s.queues, q.id)
	}
	for _, c := range over {
		s.answer(q, c, c.err)
	}
	return again, left
}

// end takes the callers to answer from the queue after a try that is their last: those that were sent, or those that
// the try began for when it failed before that. Those that stay need no place any more. The caller holds s.mu.
func (s *Store) end(q *queue, err error) (over []*call) {
	if err != nil && len(q.sent) == 0 {
		q.sent, q.waiting = begun(q.waiting)
	}
	over, q.sent = q.sent, nil
	if err != nil {
		for _, c := range over {
			c.err = err
		}
	}
	for _, c := range q.waiting {
		s.givePlace(q, c)
	}
	return over
}

// begun splits callers, in order of arrival, into those that had come when the try began and those that came later. A
// pot that was not found may have been created for the latter.
func begun(calls []*call) (early, late []*call) {
	n := slices.IndexFunc(calls, func(c *call) bool { return !c.begun })
	if n < 0 {
		return calls, nil
	}
	return calls[:n], calls[n:]
}

// tryAgain puts the callers that were sent back into the queue, without those that have tried often enough or must not
// wait for a held pot, which it returns to be answered. The caller holds s.mu.
func (s *Store) tryAgain(q *queue, err error) (over []*call) {
	if q.held.IsZero() {
		q.held = time.Now()
	}
	all := slices.Concat(q.sent, q.waiting)
	q.sent, q.waiting = nil, nil
	for _, c := range all {
		c.isSent = false
		c.tries++
		switch {
		case c.abandoned:
			s.givePlace(q, c)
		case c.tries > s.options.Retries:
			c.err = fmt.Errorf("%w: %w", pot.ErrLocked, err)
			over = append(over, c)
		case q.isHeld() && !s.takePlace(q, c):
			c.err = contention.ErrCrowded
			over = append(over, c)
		default:
			c.recordRetry(err)
			q.waiting = append(q.waiting, c)
		}
	}
	return over
}

// take moves the callers that have come to those that are sent, and returns all of these. The group of ctx is written
// for them.
func (s *Store) take(ctx context.Context, q *queue) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range q.waiting {
		c.isSent = true
		c.linkGroup(ctx)
	}
	q.sent, q.waiting = append(q.sent, q.waiting...), nil
	return slices.Clone(q.sent)
}

// answer answers a caller. The caller holds s.mu.
func (s *Store) answer(q *queue, c *call, err error) {
	s.givePlace(q, c)
	c.done <- err
}

// isHeld reports whether the pot is known to be held by another session. The caller holds Store.mu.
func (q *queue) isHeld() bool { return !q.held.IsZero() && time.Since(q.held) > knownAfter }

// takePlace gives c a place of Limits.Share unless it has one, and returns false when there is none. The caller holds
// s.mu.
func (s *Store) takePlace(q *queue, c *call) bool {
	if !c.place && s.share.Take(q.places) {
		c.place = true
		q.places++
	}
	return c.place
}

// givePlace gives the place of c back, if it has one. The caller holds s.mu.
func (s *Store) givePlace(q *queue, c *call) {
	if c.place {
		c.place = false
		q.places--
		s.share.Give()
	}
}

// recordWait records how long the pot's lease was waited for, once. The caller serves the queue.
func (s *Store) recordWait(q *queue) {
	if !q.recorded {
		q.recorded = true
		s.lock.Waited(contention.InDatabase, time.Since(q.asked))
	}
}
