package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Many implements attempt.Repository: one statement, in a transaction so that a
// lost answer to its COMMIT can be looked up.
func (s *Store) Many(
	ctx context.Context, change attempt.Change, list attempt.List, items *attempt.Items, claim attempt.Claim,
) (int64, error) {
	s.metrics.batch(change, items.Len())
	var n int64
	var err error
	if change == attempt.Add {
		n, err = s.add(ctx, list, items.Distinct())
	} else {
		n, err = s.statement(ctx, passes, batchSQL(change, sentItems), string(list), items.Distinct(), string(claim))
	}
	if err == nil {
		s.fenced(claim, items.Len(), n)
	}
	s.done(change, list, n)
	return n, err
}

// add adds the lines of a batch, the short way where nothing but new items is expected.
func (s *Store) add(ctx context.Context, list attempt.List, lines string) (int64, error) {
	if s.news.expected(string(list), time.Now()) {
		n, err := s.statement(ctx, execute, addNewSQL, string(list), lines)
		if sqldb.SQLState(err) != uniqueViolation {
			return n, err
		}
		s.news.wrong(string(list), time.Now())
	}
	n, err := s.statement(ctx, execute, batchSQL(attempt.Add, sentItems), string(list), lines)
	if err == nil && n == int64(strings.Count(lines, "\n"))+1 {
		s.news.arrived(string(list), time.Now())
	}
	return n, err
}

// uniqueViolation is an SQLSTATE, PostgreSQL manual, appendix A.
const uniqueViolation = "23505"

// runner runs a statement and counts the rows that it changed.
type runner func(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (int64, error)

// statement runs one statement of a caller's own in a transaction. All of them
// together leave some of the pool to the lanes of single items.
func (s *Store) statement(ctx context.Context, run runner, query string, args ...any) (n int64, err error) {
	err = s.queue(ctx, func() error {
		return s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) (err error) {
			n, err = run(ctx, tx, query, slices.Clone(args)...)
			return err
		}, sqldb.ResolveOutcome())
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// takeSlot waits for one of the slots of long batches.
func (s *Store) takeSlot(ctx context.Context, wait time.Duration) bool {
	select {
	case s.bulk <- struct{}{}: // with a free slot and no wait, one select would toss a coin
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case s.bulk <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// queue runs f when one of the connections for batches is free; attempt.ErrBusy when
// none was in time.
func (s *Store) queue(ctx context.Context, f func() error) error {
	err := s.batches.Do(ctx, s.turn.Add(1), s.options.LockTimeout, f)
	if errors.Is(err, bulkhead.ErrBusy) {
		return errors.Join(attempt.ErrBusy, err)
	}
	return err
}

// maxPasses bounds how often a statement is run for rows that moved. One more pass is
// enough for those of the first; further ones are for rows that were added since.
const maxPasses = 5

// passes runs a statement that cannot change what has moved until nothing has. Where it
// names what moved, which is locked by then, a further pass waits for nobody: the
// names are the second of args. A staged delete and one by attempts are run again as they
// are: items that were added since are locked out of order then, and might be somebody's
// who waits for ours. That deadlock ends as any other does, with nothing applied.
func passes(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (total int64, err error) {
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
	return 0, attempt.ErrInTheWay
}

// Stage implements attempt.Repository. The items go part by part into a temporary
// table, and one statement applies them all: the rows are locked in one order
// although nobody has seen all items at once, and it is all or nothing.
//
// The connection is held while the caller uploads, which is why there may be no
// more than BulkInFlight of these, each until BulkTimeout at most, and why the
// server ends a transaction whose caller pauses.
func (s *Store) Stage(
	ctx context.Context, change attempt.Change, list attempt.List, next func() (*attempt.Items, error), claim attempt.Claim,
) (int64, error) {
	total, n := 0, int64(0)
	ran := false
	err := s.inBulk(ctx, 0, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		if ran {
			return attempt.ErrInTheWay // the upload that it was fed from is gone
		}
		ran = true
		if total, err = stage(ctx, tx, next); err != nil {
			return err
		}
		args := []any{string(list)}
		if change != attempt.Add {
			args = append(args, string(claim))
		}
		run := execute
		if change == attempt.Delete {
			run = passes
		}
		n, err = run(ctx, tx, batchSQL(change, stagedItems), args...)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.metrics.batch(change, total)
	s.fenced(claim, total, n)
	s.done(change, list, n)
	return n, nil
}

// stage fills the temporary table and returns how many items there are.
func stage(ctx context.Context, tx *sqlx.Tx, next func() (*attempt.Items, error)) (int, error) {
	if _, err := execute(ctx, tx, createStagedSQL); err != nil {
		return 0, err
	}
	for total := 0; ; {
		items, err := next()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
		if _, err := execute(ctx, tx, fillStagedSQL, items.Lines()); err != nil {
			return 0, err
		}
		total += items.Len()
	}
}

// inBulk runs a transaction that may take BulkTimeout, or refuses with
// attempt.ErrBusy when there is no slot for it within wait.
func (s *Store) inBulk(ctx context.Context, wait time.Duration, fn func(context.Context, *sqlx.Tx) error) error {
	if !s.takeSlot(ctx, wait) {
		s.metrics.refused.Inc()
		return errors.Join(attempt.ErrBusy, ctx.Err())
	}
	defer func() { <-s.bulk }()
	return s.queue(ctx, func() error {
		return s.db.InTx(ctx, fn, sqldb.ResolveOutcome(),
			// Another long batch over the same items is in the way for as long as it takes.
			sqldb.WithLockTimeout(s.options.BulkTimeout), sqldb.WithStatementTimeout(s.options.BulkTimeout),
			sqldb.WithIdleTimeout(2*s.options.BulkStall+sqldb.Grace))
	})
}

// execute runs a statement and counts its rows.
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

// fenced notes a change whose claim no longer holds all the items that it names. A
// batch that repeats an item, or a delete that is sent again, looks like one.
func (s *Store) fenced(claim attempt.Claim, named int, touched int64) {
	if claim != "" && touched < int64(named) {
		s.options.Contention.Conflict(contention.Lost)
	}
}

// done notes a change that was made.
func (s *Store) done(change attempt.Change, list attempt.List, n int64) {
	s.metrics.changed(change, n)
	if change == attempt.Add && n > 0 {
		s.heads.forget(string(list))
	}
}
