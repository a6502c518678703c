package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add stores a new event under the next id and returns the id once it is committed. Concurrent adds share one
// transaction: the coalescer calls insertGroup with those that came while the transaction before was under way, and
// returns to each caller its own id.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.adds.Do(ctx, n) }

// The statements of a group. There is no UPDATE ... RETURNING, so the row of status is locked first, as the source has
// it.
const (
	lockStatusSQL = `SELECT id FROM status FOR UPDATE`
	takeIDsSQL    = `UPDATE status SET id = id + ?`
	insertSQL     = `INSERT INTO events (id, value) VALUES `
)

// insertGroup implements allocate.Insert. The one row of status cannot be skipped, so a pass that skips locked rows
// inserts nothing. InnoDB waits for locks in whole seconds, so pass.Wait is rounded up to one.
func (s *Store) insertGroup(
	ctx context.Context, pass coalesce.Pass, group []event.New,
) ([]coalesce.Answer[event.ID], error) {
	if pass.SkipLocked {
		return nil, coalesce.ErrLockWait
	}
	var last int64
	err := s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var status []int64
		begin := time.Now()
		err := tx.SelectContext(ctx, &status, lockStatusSQL)
		s.lock.Waited(contention.InDatabase, time.Since(begin))
		if err != nil {
			return err
		}
		if len(status) != 1 {
			return event.ErrStatus
		}
		last = status[0] + int64(len(group))
		if err := change(ctx, tx, 1, takeIDsSQL, len(group)); err != nil {
			return err
		}
		args := make([]any, 0, 2*len(group))
		for i, n := range group {
			args = append(args, status[0]+int64(i)+1, sql.NullString{String: n.Value, Valid: !n.Pending})
		}
		return change(ctx, tx, len(group), insertSQL+list("(?, ?)", len(group)), args...)
	}, sqldb.WithLockTimeout(pass.Wait))
	if sqldb.LockTimedOut(err) {
		return nil, fmt.Errorf("%w: %w", coalesce.ErrLockWait, err)
	}
	return allocate.Answers(last, len(group)), err
}

// change runs a statement and returns an error unless it changed exactly want rows.
func change(ctx context.Context, tx *sqlx.Tx, want int, query string, args ...any) error {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	got, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if got != int64(want) {
		return fmt.Errorf("the statement changed %d rows of %d: nothing is stored", got, want)
	}
	return nil
}

// list returns n times item, separated by commas.
func list(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}
