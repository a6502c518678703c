package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Change implements pot.Repository.
func (s *Store) Change(ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error)) error {
	c := &changing{store: s, ctx: ctx, pot: id, change: change}
	err := s.queues.Do(ctx, id, s.options.QueueWait, c.run)
	if !c.held && !c.begin.IsZero() {
		s.lock.Waited(contention.InDatabase, time.Since(c.begin))
	}
	if errors.Is(err, bulkhead.ErrBusy) && !errors.Is(err, pot.ErrBusy) && !errors.Is(err, pot.ErrTimeOver) {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
		}
		return fmt.Errorf("%w: %w", pot.ErrLocked, err)
	}
	return err
}

// changing is one change, from the queue to its end.
type changing struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // the request's, which bulkhead's functions are not given
	pot    pot.ID
	change func(pot.Pot) (pot.Contents, error)
	begin  time.Time // when the lease was first asked for; zero: not yet
	held   bool      // the lease was held once
}

// run tries until the change is made or refused: Retries times, or while ctx
// lasts. One timer serves all waits.
func (c *changing) run() error {
	s := c.store
	w := waiting{newTimer: s.newTimer}
	defer w.stop()
	for try := 0; ; try++ {
		err := c.withSlot()
		if !errors.Is(err, errHeld) && !errors.Is(err, errLost) && !errors.Is(err, errUnsure) {
			return err
		}
		if try == s.options.Retries {
			return fmt.Errorf("%w: %w", pot.ErrLocked, err)
		}
		if err := w.wait(c.ctx, jitter(s.options.RetryWait)); err != nil {
			return fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
		}
		noteRetry(c.ctx, err)
	}
}

// waiting is any number of waits with one timer.
type waiting struct {
	newTimer func(time.Duration) *time.Timer
	timer    *time.Timer
}

// wait waits for d, or returns ctx's error when that ends first.
func (w *waiting) wait(ctx context.Context, d time.Duration) error {
	if w.timer == nil {
		w.timer = w.newTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *waiting) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// withSlot makes one try, with a right to a connection: to wait for a lease takes
// none away from other pots, nor from reads.
func (c *changing) withSlot() error {
	err := c.store.slots.Do(c.ctx, c.pot, c.store.options.QueueWait, c.try)
	if errors.Is(err, bulkhead.ErrBusy) {
		if c.ctx.Err() != nil {
			return fmt.Errorf("%w: %w", pot.ErrTimeOver, err)
		}
		return fmt.Errorf("%w: %w", pot.ErrBusy, err)
	}
	return err
}

// try takes the lease, changes the pot and gives the lease back.
func (c *changing) try() error {
	s := c.store
	if c.begin.IsZero() {
		c.begin = time.Now()
	}
	l, err := s.acquire(c.ctx, c.pot)
	if err != nil {
		return err
	}
	if !c.held {
		c.held = true
		s.lock.Waited(contention.InDatabase, time.Since(c.begin))
	}
	t := &transaction{lease: l, change: c.change}
	err = s.db.InTx(c.ctx, t.run, s.txOptions()...)
	if leftOpen(err) {
		err = s.settle(c.ctx, l, err)
	} else if err != nil {
		s.release(c.ctx, l)
	}
	if errors.Is(err, errLost) {
		s.lock.Conflict(contention.Lost)
	}
	if t.refusal != nil {
		return t.refusal // nothing was to be changed, whatever became of the lease
	}
	return err
}

// transaction is the change's transaction.
type transaction struct {
	lease   lease
	change  func(pot.Pot) (pot.Contents, error)
	refusal error // of change: nothing but the lease is given back
}

// run is the transaction's body. It may run more than once.
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
	total := before.Contents.Total() // a kind that is not in after stays
	for kind, n := range after {
		if was := before.Contents[kind]; n != was {
			kinds, counts = append(kinds, int64(kind)), append(counts, n)
			total += n - was
		}
	}
	return t.write(ctx, tx, kinds, counts, total)
}

// fence locks the pot and reads what is in it.
func (t *transaction) fence(ctx context.Context, tx *sqlx.Tx) (pot.Pot, error) {
	var r row
	err := tx.GetContext(ctx, &r, fenceSQL, int32(t.lease.pot), t.lease.number)
	if errors.Is(err, sql.ErrNoRows) {
		return pot.Pot{}, errLost
	}
	return r.domain(), err
}

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
		return fmt.Errorf("the fenced pot is gone: %d rows were changed (%w)", n, err)
	}
	return nil
}
