package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

const (
	// longestTry bounds a change's waits for locked items: in between it holds no lock that others wait for.
	longestTry = 500 * time.Millisecond
	// waitingUploads is the part of the replica's requests that may be uploads which wait for a long one, or for a locked
	// item, as a divisor. It is half of those that may upload.
	waitingUploads = 8
)

// queue bounds the changes that are in no group, so that they leave connections of the pool to groups and reads. It
// answers attempt.ErrBusy when none was free in time.
type queue struct {
	options Options
	conns   *semaphore.Weighted  // the connections that it uses, in order of arrival
	patient *groupcommit.Patient // with half of them: for changes that have met a locked item
	long    *semaphore.Weighted  // BulkInFlight
	uploads *semaphore.Weighted  // uploads and abandons that wait for a long one, or for a locked item
}

func newQueue(o Options) *queue {
	conns := o.ungrouped()
	return &queue{
		options: o, conns: permits(conns), patient: groupcommit.NewPatient(o.Limits, conns/2, longestTry),
		long: permits(o.BulkInFlight), uploads: permits(o.Queue / waitingUploads),
	}
}

// permits returns n permits, at least one.
func permits(n int) *semaphore.Weighted { return semaphore.NewWeighted(int64(max(n, 1))) }

// acquire waits for a permit for so long.
func acquire(ctx context.Context, from *semaphore.Weighted, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := from.Acquire(ctx, 1); err != nil {
		return errors.Join(attempt.ErrBusy, err)
	}
	return nil
}

// txFunc makes a change in a transaction. It may be called again, when what it did was rolled back.
type txFunc[R any] func(ctx context.Context, tx *sqlx.Tx) (R, error)

// run adapts f to groupcommit.Transact, which stores the result.
func (f txFunc[R]) run(ctx context.Context, tx *sqlx.Tx, _ *groupcommit.Attempt) (R, error) {
	return f(ctx, tx)
}

// inTurn runs a change of a list when a connection is free, within LockTimeout. A spooled one waits as long as ctx
// lasts: it has arrived, and to refuse it is dear. A change that meets a locked item is rolled back and tried again,
// until LockTimeout is over.
func inTurn[R any](
	ctx context.Context, q *queue, list attempt.List, spooled bool, change txFunc[R],
) (R, error) {
	since, lockTimeout := time.Now(), q.options.LockTimeout
	turn := lockTimeout
	if spooled {
		turn = q.options.BulkTimeout
	}
	result, err := try(ctx, q, list, turn, min(q.patient.FirstWait(), lockTimeout), change)
	if !sqldb.LockTimedOut(err) {
		return result, err
	}

	if spooled {
		if !q.uploads.TryAcquire(1) {
			q.options.Contention.Conflict(contention.Crowded)
			return result, contention.ErrCrowded
		}
		defer q.uploads.Release(1)
		since = time.Now() // it may have waited long for a connection
	}
	return groupcommit.Retry(ctx, q.patient, list, since, func(lockWait time.Duration) (R, error) {
		return try(ctx, q, list, time.Until(since.Add(lockTimeout)), lockWait, change)
	})
}

// try runs a change when a connection is free within turn, with so long a wait for each lock.
func try[R any](
	ctx context.Context, q *queue, list attempt.List, turn, lockWait time.Duration, change txFunc[R],
) (result R, err error) {
	if err := acquire(ctx, q.conns, turn); err != nil {
		return result, err
	}
	defer q.conns.Release(1)
	return groupcommit.Transact(ctx, q.options.Slots, string(list), change.run, sqldb.WithLockTimeout(lockWait))
}

// inLongTurn runs a change that may take BulkTimeout, unless BulkInFlight others are running and none ends within wait,
// or no connection is free within it, or too many uploads wait already.
func inLongTurn[R any](
	ctx context.Context, q *queue, list attempt.List, wait time.Duration, change txFunc[R],
) (result R, err error) {
	if err := q.enterLong(ctx, wait); err != nil {
		q.options.Metrics.LongRefused.Inc()
		return result, err
	}
	defer q.long.Release(1)
	q.options.Metrics.LongBatches.Inc()
	defer q.options.Metrics.LongBatches.Dec()

	if err := acquire(ctx, q.conns, wait); err != nil {
		return result, err
	}
	defer q.conns.Release(1)

	// Another long batch over the same items holds its locks until it ends.
	bulk := q.options.BulkTimeout
	return groupcommit.Transact(ctx, q.options.Slots, string(list), change.run,
		sqldb.WithLockTimeout(bulk), sqldb.WithStatementTimeout(bulk))
}

// enterLong waits for the end of another long change if it must.
func (q *queue) enterLong(ctx context.Context, wait time.Duration) error {
	if q.long.TryAcquire(1) {
		return nil
	}
	if !q.uploads.TryAcquire(1) {
		return attempt.ErrBusy
	}
	defer q.uploads.Release(1)
	return acquire(ctx, q.long, wait)
}
