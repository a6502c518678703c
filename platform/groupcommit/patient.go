package groupcommit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/platform/contention"
)

// shortestPause is the first pause between two tries, in which a change holds nothing. The longest is longestWait.
const shortestPause = 10 * time.Millisecond

// Patient tries changes again that are in no group and have met a locked row. They stand in line in order of arrival:
// for longestWait among the fresh ones, and then among those whose row has stayed locked. So the callers of such a row
// do not hold up one that has merely collided with another replica.
type Patient struct {
	limits       Limits
	longest      time.Duration
	fresh, stuck line
}

// line is where callers wait for a connection.
type line struct {
	callers atomic.Int64
	turns   *semaphore.Weighted
}

// NewPatient returns a Patient that uses conns connections, two at least. longest bounds a try's wait for a row that
// has stayed locked.
func NewPatient(l Limits, conns int, longest time.Duration) *Patient {
	half := func() line { return line{turns: semaphore.NewWeighted(int64(max(conns/2, 1)))} }
	return &Patient{limits: l, longest: longest, fresh: half(), stuck: half()}
}

// FirstWait returns how long the first try of a change, or of a group, waits for a lock: only a glance while a row has
// stayed locked, because each of its callers makes a first try.
func (p *Patient) FirstWait() time.Duration {
	if p != nil && p.stuck.callers.Load() > 0 {
		return glance
	}
	return briefWait
}

// collisions is the number of fresh callers up to which none waits shorter: other replicas keep each row for a moment.
const collisions = 4

// lockWait returns how long a try waits for a lock. The more callers a line has, the shorter: all together wait about
// as long as one does alone, or a few do.
func (p *Patient) lockWait(l *line) time.Duration {
	callers := time.Duration(l.callers.Load())
	if l == &p.fresh {
		return briefWait / max(callers/collisions, 1)
	}
	return p.longest / callers
}

// Retry calls try, with the lock_timeout for its transaction, until it no longer returns [ErrSplit] or that a lock
// timed out. key names what it waits for, as in the lanes of a [Committer]. It returns [ErrLocked] when
// [Limits.LockTimeout] has passed since the change came, contention.ErrCrowded when Limits.Share has no permit, and
// [ErrLeft] when ctx ends between two tries.
func Retry[R any](
	ctx context.Context, p *Patient, key any, since time.Time, try func(lockWait time.Duration) (R, error),
) (result R, err error) {
	if !p.limits.Share.Take(key) {
		return result, contention.ErrCrowded
	}
	defer p.limits.Share.Give(key)

	l := &p.fresh
	l.callers.Add(1)
	defer func() { l.callers.Add(-1) }()
	defer func() { p.limits.Contention.Waited(contention.InLane, time.Since(since)) }()

	inTime, cancel := context.WithDeadline(ctx, since.Add(p.limits.LockTimeout))
	defer cancel()
	begin := time.Now()
	for pause := shortestPause; ; pause = min(2*pause, longestWait) {
		if l == &p.fresh && time.Since(begin) > longestWait {
			l.callers.Add(-1)
			l = &p.stuck
			l.callers.Add(1)
		}
		result, err = tryInTurn(inTime, p, l, try)
		if !errors.Is(err, ErrLocked) && !errors.Is(err, ErrSplit) && !isLocked(err) {
			return result, err
		}

		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-inTime.Done():
			if ctx.Err() != nil {
				return result, errors.Join(ErrLeft, ctx.Err())
			}
			p.limits.Contention.Conflict(contention.QueueTimeout)
			return result, ErrLocked
		}
	}
}

// tryInTurn calls try when its turn has come.
func tryInTurn[R any](
	inTime context.Context, p *Patient, l *line, try func(time.Duration) (R, error),
) (result R, err error) {
	begin := time.Now()
	if l.turns.Acquire(inTime, 1) != nil {
		return result, ErrLocked
	}
	defer l.turns.Release(1)
	p.limits.Contention.Waited(contention.InProcess, time.Since(begin))

	end, _ := inTime.Deadline()
	return try(max(min(p.lockWait(l), time.Until(end)), time.Millisecond))
}
