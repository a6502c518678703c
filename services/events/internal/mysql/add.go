package mysql

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/eventdb"
)

// The statements of a group. MySQL has no UPDATE ... RETURNING, so a SELECT locks the row of status first, as in the
// source.
const (
	lockStatusSQL = `SELECT id FROM status FOR UPDATE`
	takeIDsSQL    = `UPDATE status SET id = id + ?`
	insertSQL     = `INSERT INTO events (id, value) VALUES `
)

// insertGroup sends a group: see groupcommit.Config.Send. All groups wait for the one row of status. InnoDB waits for
// locks in whole seconds, so a.LockWait is rounded up to one.
func insertGroup(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []event.New) error {
	var status []int64
	begin := time.Now()
	err := s.SelectContext(ctx, &status, lockStatusSQL)
	a.Waited = time.Since(begin)
	if err != nil {
		return err
	}
	if len(status) != 1 {
		return event.ErrStatus
	}

	if err := eventdb.Change(ctx, s, 1, takeIDsSQL, len(group)); err != nil {
		return err
	}

	ids := make([]int64, len(group))
	args := make([]any, 0, 2*len(group))
	for i, n := range group {
		ids[i] = status[0] + int64(i) + 1
		args = append(args, ids[i], sql.NullString{String: n.Value, Valid: !n.Pending})
	}
	if err := eventdb.Change(ctx, s, len(group), insertSQL+list("(?, ?)", len(group)), args...); err != nil {
		return err
	}

	return a.Store(ctx, s, ids)
}

// list repeats item n times, separated by commas.
func list(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}
