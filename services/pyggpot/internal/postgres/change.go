package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// knownAfter is how long a pot is found leased before its change needs a place of Options.Share: replicas lease a pot
// that they share for milliseconds.
const knownAfter = 50 * time.Millisecond

// Change implements pot.Repository. It waits until no other caller of this replica changes the pot, and then tries to
// lease and change it until that is done or refused, Options.Retries more times at most. It returns
// contention.ErrCrowded when the pot stays leased and too many changes wait for such pots.
func (s *Store) Change(ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error)) (err error) {
	turn, err := s.queues.Enter(ctx, id, s.options.QueueWait)
	if err != nil {
		return notBegun(ctx, pot.ErrLocked, err)
	}
	defer func() { turn.Leave(err == nil) }()
	wait := leaseWait{lock: s.lock}
	defer wait.end()
	var timer retryTimer
	for try := 0; ; try++ {
		err := s.try(ctx, id, change, &wait)
		if !errors.Is(err, errHeld) && !errors.Is(err, errLost) && !errors.Is(err, errUnsure) {
			return err
		}
		if try == s.options.Retries {
			return fmt.Errorf("%w: %w", pot.ErrLocked, err)
		}
		if time.Since(wait.begin) > knownAfter && !turn.Hold() {
			return contention.ErrCrowded
		}
		if err := timer.wait(ctx, s.options.RetryWait); err != nil {
			return fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
		}
		recordRetry(ctx, err)
	}
}

// try leases the pot, changes it and releases the lease. It takes one of the slots for connections, which Change's
// waits between tries do not hold: they take no connection away from other pots or from reads.
func (s *Store) try(
	ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error), wait *leaseWait,
) error {
	slot, err := s.slots.Enter(ctx, id, s.options.QueueWait)
	if err != nil {
		return notBegun(ctx, pot.ErrBusy, err)
	}
	defer slot.Leave(true)
	wait.start()
	l, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	wait.end()
	t := &transaction{lease: l, change: change}
	err = s.db.InTx(ctx, t.run, s.txOptions()...)
	if unknown(err) {
		err = s.resolve(ctx, l, err)
	} else if err != nil {
		s.release(ctx, l)
	}
	if errors.Is(err, errLost) {
		s.lock.Conflict(contention.Lost)
	}
	if t.refusal != nil {
		return t.refusal // nothing was to be changed, whatever became of the lease
	}
	return err
}

// notBegun returns the error of a change whose turn did not come: reason, or pot.ErrTimeOver when ctx has ended, or
// contention.ErrCrowded.
func notBegun(ctx context.Context, reason, err error) error {
	if errors.Is(err, contention.ErrCrowded) {
		return err
	}
	if ctx.Err() != nil {
		reason = pot.ErrTimeOver
	}
	return fmt.Errorf("%w: %w", reason, err)
}

// leaseWait measures how long a change waits for its first lease, from its first try on.
type leaseWait struct {
	lock  *contention.Metrics
	begin time.Time // zero before the first try
	ended bool
}

// start begins the wait, once.
func (w *leaseWait) start() {
	if w.begin.IsZero() {
		w.begin = time.Now()
	}
}

// end records the wait, once, if it has begun.
func (w *leaseWait) end() {
	if !w.begin.IsZero() && !w.ended {
		w.lock.Waited(contention.InDatabase, time.Since(w.begin))
		w.ended = true
	}
}

// retryTimer holds the one timer of all waits of a change between its tries.
type retryTimer struct{ timer *time.Timer }

// wait waits for about d. It returns ctx's error, and stops the timer, when that ends first.
func (r *retryTimer) wait(ctx context.Context, d time.Duration) error {
	if r.timer == nil {
		r.timer = time.NewTimer(jitter(d))
	} else {
		r.timer.Reset(jitter(d))
	}
	select {
	case <-r.timer.C:
		return nil
	case <-ctx.Done():
		r.timer.Stop()
		return ctx.Err()
	}
}

// jitter returns d, half more or less, so that replicas do not try at the same moment again.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

// transaction holds the state of a change's transaction.
type transaction struct {
	lease   lease
	change  func(pot.Pot) (pot.Contents, error)
	refusal error // change's own: then only the lease is released
}

// run executes the statements of the transaction. It may be called more than once.
func (t *transaction) run(ctx context.Context, tx *sqlx.Tx) error {
	t.refusal = nil
	before, err := t.fence(ctx, tx)
	if err != nil {
		return err
	}
	var after pot.Contents
	if after, t.refusal = t.change(before); t.refusal != nil {
		after = before.Contents
	}
	var kinds, counts pq.Int64Array
	total := before.Contents.Total() // a kind that is not in after keeps its coins
	for kind, n := range after {
		if was := before.Contents[kind]; n != was {
			kinds, counts = append(kinds, int64(kind)), append(counts, n)
			total += n - was
		}
	}
	return t.write(ctx, tx, kinds, counts, total)
}

// fence locks the pot and returns it, or errLost.
func (t *transaction) fence(ctx context.Context, tx *sqlx.Tx) (pot.Pot, error) {
	var r row
	err := tx.GetContext(ctx, &r, fenceSQL, int32(t.lease.pot), t.lease.number)
	if errors.Is(err, sql.ErrNoRows) {
		return pot.Pot{}, errLost
	}
	return r.domain(), err
}

// write stores the counts of the kinds that changed and the pot's total, and releases the lease.
func (t *transaction) write(ctx context.Context, tx *sqlx.Tx, kinds, counts pq.Int64Array, total int64) error {
	query, args := changeSQL, []any{int32(t.lease.pot), t.lease.number, kinds, counts, total}
	if len(kinds) == 0 {
		query, args = releaseSQL, args[:2]
	}
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("the fenced pot was not found: %d rows were changed (%w)", n, err)
	}
	return nil
}
