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
	limits     Limits
	longest    time.Duration
	callers    atomic.Int64        // in both lines
	fresh, old *semaphore.Weighted // connections
}

// NewPatient returns a Patient that uses so many connections, two at least. A try waits for a lock for longest at most.
func NewPatient(l Limits, conns int, longest time.Duration) *Patient {
	half := int64(max(conns/2, 1))
	return &Patient{limits: l, longest: longest, fresh: semaphore.NewWeighted(half), old: semaphore.NewWeighted(half)}
}

// FirstWait returns how long the first try of a change, or of a group, waits for a lock: only a glance while a row is
// known to be locked, because each of its callers makes a first try.
func (p *Patient) FirstWait() time.Duration {
	if p != nil && p.callers.Load() > 0 {
		return glance
	}
	return briefWait
}

// Retry calls try, with the lock_timeout for its transaction, until it no longer returns [ErrSplit] or that a lock
// timed out. It returns [ErrLocked] when [Limits.LockTimeout] has passed since the change came, contention.ErrCrowded
// when Limits.Share has no place, and [ErrLeft] when ctx ends between two tries.
func Retry[R any](
	ctx context.Context, p *Patient, since time.Time, try func(lockWait time.Duration) (R, error),
) (result R, err error) {
	defer p.callers.Add(-1)
	if !p.limits.Share.Take(int(p.callers.Add(1) - 1)) {
		return result, contention.ErrCrowded
	}
	defer p.limits.Share.Give()
	defer func() { p.limits.Contention.Waited(contention.InLane, time.Since(since)) }()

	inTime, cancel := context.WithDeadline(ctx, since.Add(p.limits.LockTimeout))
	defer cancel()
	begin := time.Now()
	for pause := shortestPause; ; pause = min(2*pause, longestWait) {
		line, wait := p.fresh, min(briefWait, p.longest)
		if time.Since(begin) > longestWait {
			line, wait = p.old, p.longest
		}
		result, err = tryInTurn(inTime, p, line, wait, try)
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

// tryInTurn calls try when its turn has come. The more callers there are, the shorter is the wait for a lock: all
// together wait about as long as one does alone.
func tryInTurn[R any](
	inTime context.Context, p *Patient, line *semaphore.Weighted, wait time.Duration, try func(time.Duration) (R, error),
) (result R, err error) {
	begin := time.Now()
	if line.Acquire(inTime, 1) != nil {
		return result, ErrLocked
	}
	defer line.Release(1)
	p.limits.Contention.Waited(contention.InProcess, time.Since(begin))

	end, _ := inTime.Deadline()
	return try(max(min(wait/time.Duration(p.callers.Load()), time.Until(end)), time.Millisecond))
}
