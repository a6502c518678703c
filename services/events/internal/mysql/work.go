package mysql

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/eventdb"
)

// claimSQL locks pending events that no other transaction has locked.
const claimSQL = `
SELECT id
  FROM events
 WHERE value IS NULL
 LIMIT ?
   FOR UPDATE SKIP LOCKED`

// claimPartSQL returns claimSQL for one partition of the pending events. While there is a backlog, each claim reads
// another partition: workers that all began at the first one would have to skip each other's locks, and deleted rows
// that are not yet purged.
func claimPartSQL(part uint64) string {
	return strings.Replace(claimSQL, "FROM events", "FROM events PARTITION (pendingsp"+strconv.FormatUint(part, 10)+")", 1)
}

// parts is the number of subpartitions that migrations/00002_events.sql creates.
const parts = 64

// finishSQL returns the statement that stores the values of n claimed events, which moves them to the processed ones.
// "value IS NULL" selects the partition and makes a repeat harmless; LIMIT ends the scan at the last of them.
func finishSQL(n int) string {
	return `
UPDATE events
   SET value = CASE id` + strings.Repeat(` WHEN ? THEN ?`, n) + ` END
 WHERE value IS NULL
   AND id IN (` + list("?", n) + `)
 LIMIT ?`
}

// Work implements event.Queue.
func (s *Store) Work(ctx context.Context, limit int, value func(event.ID) string) (n int, err error) {
	err = s.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		ids, err := s.claim(ctx, tx, limit)
		n = len(ids)
		switch {
		case err != nil:
			return err
		case n == 0:
			return eventdb.ErrNothing
		}

		args := make([]any, 0, 3*n+1)
		for _, id := range ids {
			args = append(args, id, value(event.ID(id)))
		}
		for _, id := range ids {
			args = append(args, id)
		}

		return eventdb.Change(ctx, tx, n, finishSQL(n), append(args, n)...)
	})
	if err != nil && !errors.Is(err, eventdb.ErrNothing) {
		return 0, err
	}
	return n, nil
}

// claim locks up to limit pending events and returns their ids. While there is a backlog it reads one partition, and
// all of them only if that has too few.
func (s *Store) claim(ctx context.Context, tx *sqlx.Tx, limit int) (ids []int64, err error) {
	if s.backlog.Load() {
		if err := tx.SelectContext(ctx, &ids, claimPartSQL(s.next.Add(1)%parts), limit); err != nil {
			return nil, err
		}
		if len(ids) == limit {
			return ids, nil
		}
		// These stay locked until COMMIT. The next SELECT finds most of them again, since SKIP LOCKED does not skip the
		// transaction's own locks.
		ids = nil
	}

	err = tx.SelectContext(ctx, &ids, claimSQL, limit)
	s.backlog.Store(err == nil && len(ids) == limit)
	return ids, err
}
