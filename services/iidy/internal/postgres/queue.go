package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// queue runs the statements that are not grouped, a bounded number at a time, so that
// they leave connections of the pool to the coalescers. Its methods return attempt.ErrBusy
// when no connection was free in time.
type queue struct {
	db      *sqldb.DB
	options Options
	conns   int // that it uses
	slots   *bulkhead.Bulkhead[int64]
	callers atomic.Int64  // gives each caller a key of its own: none waits for another's
	spooled chan struct{} // holds an element for each spooled batch that wants a connection for the first time
	long    chan struct{} // holds an element for each long transaction
	waiting chan struct{} // holds an element for each upload or abandon that waits for a long one, or for a locked item
}

// waitingUploads is the part of the replica's requests that may wait so, as a divisor. It is half of those that may
// upload.
const waitingUploads = 8

func newQueue(db *sqldb.DB, o Options) *queue {
	conns := max(o.MaxOpenConns-GroupConns*max(o.InFlight, 1), 1)
	return &queue{
		db: db, options: o, conns: conns,
		slots:   bulkhead.New[int64](conns, nil, o.Share),
		spooled: make(chan struct{}, conns),
		long:    make(chan struct{}, max(o.BulkInFlight, 1)),
		waiting: make(chan struct{}, max(o.Queue/waitingUploads, 1)),
	}
}

// wait calls f when a connection is free, within LockTimeout.
func (q *queue) wait(ctx context.Context, f func() error) error {
	return q.waitFor(ctx, q.options.LockTimeout, f)
}

func (q *queue) waitFor(ctx context.Context, limit time.Duration, f func() error) error {
	place, err := q.slots.Enter(ctx, q.callers.Add(1), limit)
	if err != nil {
		return busy(err)
	}
	defer place.Leave(true)
	return f()
}

// busy joins the bulkhead's error with attempt.ErrBusy.
func busy(err error) error {
	if errors.Is(err, bulkhead.ErrBusy) {
		return errors.Join(attempt.ErrBusy, err)
	}
	return err
}

// once runs one statement in autocommit.
func (q *queue) once(ctx context.Context, fn func(context.Context, *sqlx.Conn) error) error {
	return q.wait(ctx, func() error { return q.db.Once(ctx, fn) })
}

// inTurn calls f, which runs a transaction by tx. A transaction that meets a locked item is rolled back and f called
// again, in one of the half of the connections that may wait for locks.
func (q *queue) inTurn(ctx context.Context, f func(lockWait time.Duration) error) error {
	return busy(q.slots.Do(ctx, q.callers.Add(1), q.options.LockTimeout, f, sqldb.LockTimedOut))
}

// inSpooledTurn is inTurn for a spooled batch, which waits for a connection as long as ctx lasts: it has arrived, and
// to refuse it is dear. Once its transaction has met a locked item, others do not wait for it, and it is refused when
// too many uploads wait.
func (q *queue) inSpooledTurn(ctx context.Context, f func(lockWait time.Duration) error) error {
	select {
	case q.spooled <- struct{}{}:
	case <-ctx.Done():
		return errors.Join(attempt.ErrBusy, ctx.Err())
	}
	end := sync.OnceFunc(func() { <-q.spooled })
	defer end()
	waits := false
	defer func() {
		if waits {
			<-q.waiting
		}
	}()
	return q.inTurn(ctx, func(lockWait time.Duration) error {
		defer end()
		err := f(lockWait)
		if waits || !sqldb.LockTimedOut(err) {
			return err
		}
		if waits = q.mayWait(); !waits {
			q.options.Contention.Conflict(contention.Crowded)
			return contention.ErrCrowded
		}
		return err
	})
}

// mayWait reports whether one more upload may wait. The caller must then take an element from q.waiting at the end.
func (q *queue) mayWait() bool {
	select {
	case q.waiting <- struct{}{}:
		return true
	default:
		return false
	}
}

// tx runs a transaction, and looks up the outcome of a COMMIT whose reply was lost.
func (q *queue) tx(
	ctx context.Context, s slot, lockWait time.Duration, fn func(context.Context, *sqlx.Tx) error,
) error {
	return inTx(ctx, q.db, s, 0, nil, fn, sqldb.WithLockTimeout(lockWait))
}

// inLongTx runs a transaction that may take BulkTimeout, unless BulkInFlight others are
// running and none ends within wait, or no connection is free within it, or an eighth of
// the replica's requests wait for that.
func (q *queue) inLongTx(
	ctx context.Context, s slot, wait time.Duration, prepare, fn inTxFunc,
) error {
	if !q.takeSlot(ctx, wait) {
		q.options.Metrics.LongBatchRefused()
		return errors.Join(attempt.ErrBusy, ctx.Err())
	}
	ended := q.options.Metrics.LongBatch()
	defer func() { ended(); <-q.long }()
	return q.waitFor(ctx, wait, func() error {
		return inTx(ctx, q.db, s, q.options.BulkTimeout, prepare, fn,
			// Another long batch over the same items holds its locks until it ends.
			sqldb.WithLockTimeout(q.options.BulkTimeout), sqldb.WithStatementTimeout(q.options.BulkTimeout))
	})
}

// takeSlot waits for the end of another long transaction if it must, unless too many calls do.
func (q *queue) takeSlot(ctx context.Context, wait time.Duration) bool {
	select {
	case q.long <- struct{}{}: // first alone, because select chooses at random when wait is 0
		return true
	default:
	}
	if !q.mayWait() {
		return false
	}
	defer func() { <-q.waiting }()
	select {
	case q.long <- struct{}{}:
		return true
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return false
}
