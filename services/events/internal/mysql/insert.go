package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// The statements of a group. There is no UPDATE ... RETURNING, so the row of
// status is locked first, as the source has it.
const (
	lockStatusSQL = `SELECT id FROM status FOR UPDATE`
	takeIDsSQL    = `UPDATE status SET id = id + ?`
	insertSQL     = `INSERT INTO events (id, value) VALUES `
)

// insert is the allocator's. InnoDB waits for locks in whole seconds, so wait is
// rounded up to one.
func (s *Store) insert(ctx context.Context, wait time.Duration, group []event.New) (event.ID, error) {
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
			args = append(args, status[0]+int64(i)+1, nullable(n))
		}
		return change(ctx, tx, len(group), insertSQL+list("(?, ?)", len(group)), args...)
	}, sqldb.WithLockTimeout(wait))
	return event.ID(last), err
}

func nullable(n event.New) any {
	if n.Pending {
		return nil
	}
	return n.Value
}

// change runs a statement that must change exactly so many rows.
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
		return fmt.Errorf("%d rows were to be changed and %d could be: nothing was changed", want, got)
	}
	return nil
}

// list is n times item, with commas.
func list(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}
