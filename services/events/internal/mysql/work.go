package mysql

import (
	"context"
	"errors"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// claimSQL locks pending events that nobody else has locked.
const claimSQL = `
SELECT id
  FROM events
 WHERE value IS NULL
 LIMIT ?
   FOR UPDATE SKIP LOCKED`

// finishSQL gives the claimed events their values, which moves them to the
// processed ones. "value IS NULL" names the partition, and makes a repeat
// harmless; LIMIT ends the scan at the last of them.
func finishSQL(n int) string {
	return `
UPDATE events
   SET value = CASE id` + strings.Repeat(` WHEN ? THEN ?`, n) + ` END
 WHERE value IS NULL
   AND id IN (` + list("?", n) + `)
 LIMIT ?`
}

// errNothing rolls a claim of nothing back.
var errNothing = errors.New("nothing is pending")

// Work implements event.Queue.
func (s *Store) Work(ctx context.Context, limit int, value func(event.ID) string) (n int, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var ids []int64
		n = 0
		if err := tx.SelectContext(ctx, &ids, claimSQL, limit); err != nil {
			return err
		}
		if len(ids) == 0 {
			return errNothing
		}
		args := make([]any, 0, 3*len(ids)+1)
		for _, id := range ids {
			args = append(args, id, value(event.ID(id)))
		}
		for _, id := range ids {
			args = append(args, id)
		}
		n = len(ids)
		return change(ctx, tx, n, finishSQL(n), append(args, n)...)
	})
	if err == errNothing { //nolint:errorlint // returned as it is
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}
