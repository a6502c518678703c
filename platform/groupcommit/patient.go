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

const (
	// freshFor is how long a change counts as fresh: longer than replicas collide on a hot row.
	freshFor = 250 * time.Millisecond
	// freshWait bounds the wait of a fresh change for a lock, and so the time for which it keeps the next one waiting.
	freshWait = 25 * time.Millisecond
	// shortestPause and longestPause bound the pauses between two tries, in which a change holds nothing.
	shortestPause = 10 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// Patient tries changes again that are in no group and have met a locked row. They stand in two lines, in order of
// arrival: the fresh ones, and those whose row has stayed locked. So the callers of a row that stays locked do not keep
// one waiting that has merely collided with another replica.
type Patient struct {
	limits     Limits
	fresh, old line
}

// line has connections of its own, and a part of Limits.Share like the callers of one key.
type line struct {
	permits *semaphore.Weighted
	wait    time.Duration // for a lock, when nobody else stands in line
	callers atomic.Int64
}

// NewPatient returns a Patient that uses so many connections, two at least. A try waits for a lock for longest at most.
func NewPatient(l Limits, conns int, longest time.Duration) *Patient {
	p := &Patient{limits: l}
	each := int64(max(conns/2, 1))
	p.fresh.permits, p.fresh.wait = semaphore.NewWeighted(each), min(freshWait, longest)
	p.old.permits, p.old.wait = semaphore.NewWeighted(each), longest
	return p
}

// FirstWait returns how long the first try of a change, or of a group, waits for a lock: only a glance while a row is
// known to be locked, because each of its callers makes a first try.
func (p *Patient) FirstWait() time.Duration {
	if p != nil && p.fresh.callers.Load()+p.old.callers.Load() > 0 {
		return glance
	}
	return briefWait
}

// Retry calls try until it no longer returns [ErrSplit] or that a lock timed out, or until [Limits.LockTimeout] has
// passed since the change came: then it returns [ErrLocked]. try makes the change in a transaction with the
// lock_timeout that it is given. Between two tries there is a pause. Retry returns contention.ErrCrowded when
// Limits.Share has no place, and [ErrLeft] when ctx ends between two tries.
func Retry[R any](
	ctx context.Context, p *Patient, since time.Time, try func(lockWait time.Duration) (R, error),
) (R, error) {
	defer func() { p.limits.Contention.Waited(contention.InLane, time.Since(since)) }()

	inTime, cancel := context.WithDeadline(ctx, since.Add(p.limits.LockTimeout))
	defer cancel()
	result, err := retryInLine(inTime, p, &p.fresh, time.Now().Add(freshFor), try)
	if errors.Is(err, ErrLocked) {
		result, err = retryInLine(inTime, p, &p.old, since.Add(p.limits.LockTimeout), try)
	}

	if !errors.Is(err, ErrLocked) {
		return result, err
	}
	if cause := ctx.Err(); cause != nil {
		return result, errors.Join(ErrLeft, cause)
	}
	p.limits.Contention.Conflict(contention.QueueTimeout)
	return result, err
}

// retryInLine is Retry in one line. After until, and when inTime has ended, it returns ErrLocked.
func retryInLine[R any](
	inTime context.Context, p *Patient, l *line, until time.Time, try func(lockWait time.Duration) (R, error),
) (result R, err error) {
	defer l.callers.Add(-1)
	if !p.limits.Share.Take(int(l.callers.Add(1) - 1)) {
		return result, contention.ErrCrowded
	}
	defer p.limits.Share.Give()

	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		result, err = tryInTurn(inTime, p, l, try)
		if !errors.Is(err, ErrLocked) && !errors.Is(err, ErrSplit) && !isLocked(err) {
			return result, err
		}

		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-inTime.Done():
		}
		if inTime.Err() != nil || time.Now().After(until) {
			return result, ErrLocked
		}
	}
}

// tryInTurn calls try once, when its turn has come, or returns ErrLocked when inTime has ended. The more callers stand
// in line, the shorter is the wait for a lock: all together wait about as long as one does alone.
func tryInTurn[R any](
	inTime context.Context, p *Patient, l *line, try func(lockWait time.Duration) (R, error),
) (result R, err error) {
	begin := time.Now()
	if l.permits.Acquire(inTime, 1) != nil {
		return result, ErrLocked
	}
	defer l.permits.Release(1)
	p.limits.Contention.Waited(contention.InProcess, time.Since(begin))

	end, _ := inTime.Deadline()
	return try(max(min(l.wait/time.Duration(l.callers.Load()), time.Until(end)), time.Millisecond))
}
