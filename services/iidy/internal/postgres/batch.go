package postgres

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// ApplyBatch implements attempt.Repository by one statement, in a transaction so that
// a lost reply to its COMMIT can be looked up.
func (s *Store) ApplyBatch(
	ctx context.Context, change attempt.Change, list attempt.List, items attempt.Batch, claim attempt.Claim,
) (int64, error) {
	s.metrics.Batch(change, items.Len())
	var n int64
	var err error
	switch {
	case s.onCitus():
		n, err = s.runBatchBy(ctx, list, items, func(
			ctx context.Context, tx *sqlx.Tx, proof slot, lines string,
		) (int64, error) {
			return changeBatchOnShard(ctx, tx, proof, change, lines, claim)
		})
	case change == attempt.Add:
		n, err = s.addBatch(ctx, list, items)
	default:
		n, err = s.runBatch(ctx, executeUntilNoneMoved, batchSQL(change, sentItems), list, items, string(claim))
	}
	if err != nil {
		return 0, err
	}
	s.noteLost(claim, items.Len(), n)
	s.noteChange(change, list, n)
	return n, nil
}

// addRetryAfter is for how long a list is not expected to have only new items again
// once that was wrong: a batch was inserted and rolled back, which leaves dead rows.
const addRetryAfter = time.Minute

// addBatch adds the items of a batch. An INSERT without ON CONFLICT costs half of one
// with it, so a list whose last batch was all new gets that first; when an item is in
// the list after all the statement fails as a whole and is made again with it.
func (s *Store) addBatch(ctx context.Context, list attempt.List, items attempt.Batch) (int64, error) {
	begin, hinted := s.allNew.get(string(list))
	if hinted && !time.Now().Before(begin) {
		n, err := s.runBatch(ctx, execute, addNewSQL, list, items)
		if !sqldb.IsUniqueViolation(err) {
			return n, err
		}
		s.allNew.put(string(list), time.Now().Add(addRetryAfter))
	}
	n, err := s.runBatch(ctx, execute, batchSQL(attempt.Add, sentItems), list, items)
	if allNew := n == int64(items.Len()); allNew && err == nil && !hinted {
		s.allNew.put(string(list), time.Now())
	}
	return n, err
}

// runner runs a statement and returns the number of rows that it changed.
type runner func(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (int64, error)

// runBatch runs a statement over the items of a batch in a transaction and returns the
// number of rows that it changed, 0 on an error.
func (s *Store) runBatch(
	ctx context.Context, run runner, query string, list attempt.List, items attempt.Batch, more ...any,
) (int64, error) {
	return s.runBatchBy(ctx, list, items, func(
		ctx context.Context, tx *sqlx.Tx, _ slot, lines string,
	) (int64, error) {
		return run(ctx, tx, query, append([]any{string(list), lines}, more...)...)
	})
}

// runBatchBy is runBatch for what apply does with the items of a batch, each once, a line
// each. A spooled batch is loaded when it is its turn: while it waits, for its turn or for
// a lock, it is not in memory.
func (s *Store) runBatchBy(
	ctx context.Context, list attempt.List, items attempt.Batch,
	apply func(ctx context.Context, tx *sqlx.Tx, proof slot, lines string) (int64, error),
) (n int64, err error) {
	inTurn := s.queue.inTurn
	if items.Spooled() {
		inTurn = s.queue.inSpooledTurn
	}
	err = inTurn(ctx, func(lockWait time.Duration) error {
		loaded, err := items.Load()
		if err != nil {
			return err
		}
		lines, proof := loaded.Distinct(), newSlot(s.queue.db, string(list))
		return s.queue.tx(ctx, proof, lockWait, func(ctx context.Context, tx *sqlx.Tx) (err error) {
			n, err = apply(ctx, tx, proof, lines)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// count implements runner for a statement that returns the number.
func count(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (n int64, err error) {
	err = tx.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// execute implements runner.
func execute(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("count the rows: %w", err)
	}
	return n, nil
}

// maxPasses bounds how often a statement is run for rows that moved. One more pass is
// enough for those of the first; further ones are for rows that were added since.
const maxPasses = 5

// executeUntilNoneMoved implements runner for statements that cannot change a row that
// another transaction moved while its lock was waited for. Where the statement returns
// the items that moved, they replace args[1]: their rows are locked by then, so a
// further pass waits for no lock. A staged delete and one by attempts are run again as
// they are: they may then lock items that were added since, out of order. A deadlock
// over these ends as any other does, with nothing applied.
func executeUntilNoneMoved(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (total int64, err error) {
	for range maxPasses {
		var done int64
		var moved bool
		var items string
		if err := tx.QueryRowContext(ctx, query, args...).Scan(&done, &moved, &items); err != nil {
			return 0, err
		}
		total += done
		if !moved {
			return total, nil
		}
		if items != "" {
			args[1] = items
		}
	}
	return 0, attempt.ErrConflict
}

// ApplyStaged implements attempt.Repository. The items go part by part into a temporary
// table, and one statement applies them all: the rows are locked in one order although
// the replica never holds all items at once, and it is all or nothing.
//
// The batch has arrived: it waits its turn among those of BulkInFlight for as long as
// its time lasts, and after a deadlock it is staged again.
func (s *Store) ApplyStaged(
	ctx context.Context, change attempt.Change, list attempt.List,
	parts iter.Seq2[*attempt.Items, error], claim attempt.Claim,
) (int64, error) {
	sent, n, proof := 0, int64(0), newSlot(s.queue.db, string(list))
	upload := func(ctx context.Context, tx *sqlx.Tx) (err error) {
		sent, err = stage(ctx, tx, parts)
		return err
	}
	err := s.queue.inLongTx(ctx, proof, s.queue.options.BulkTimeout, upload, func(
		ctx context.Context, tx *sqlx.Tx,
	) (err error) {
		if s.onCitus() {
			n, err = changeStagedOnShard(ctx, tx, proof, change, claim)
			return err
		}
		query := batchSQL(change, stagedItems)
		switch change {
		case attempt.Delete:
			n, err = executeUntilNoneMoved(ctx, tx, query, string(list), string(claim))
		case attempt.Increment:
			n, err = execute(ctx, tx, query, string(list), string(claim))
		case attempt.Add:
			n, err = execute(ctx, tx, query, string(list))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	s.metrics.Batch(change, sent)
	s.noteLost(claim, sent, n)
	s.noteChange(change, list, n)
	return n, nil
}

// stage fills the temporary table and returns the number of items.
func stage(ctx context.Context, tx *sqlx.Tx, parts iter.Seq2[*attempt.Items, error]) (total int, err error) {
	if _, err := execute(ctx, tx, createStagedSQL); err != nil {
		return 0, err
	}
	for items, err := range parts {
		if err != nil {
			return 0, err
		}
		if _, err := execute(ctx, tx, fillStagedSQL, items.Lines()); err != nil {
			return 0, err
		}
		total += items.Len()
	}
	return total, nil
}

// noteLost counts a change whose claim no longer holds all the items that it names. A
// batch that repeats an item, or a delete that is sent again, is counted as well.
func (s *Store) noteLost(claim attempt.Claim, named int, changed int64) {
	if claim != "" && changed < int64(named) {
		s.contention.Conflict(contention.Lost)
	}
}

// noteChange counts a change that was made.
func (s *Store) noteChange(change attempt.Change, list attempt.List, n int64) {
	s.metrics.Changed(change, n)
	if change == attempt.Add && n > 0 {
		s.freeFrom.forget(string(list))
	}
}
