//go:build bug_sequence

package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// insert is the bug "a sequence for the row of status" (rowlock mutation-test): as with a
// sequence, ids are given out for good before the events that they are for are stored.
func (s *Store) insert(ctx context.Context, wait time.Duration, group []event.New) (event.ID, error) {
	const takeSQL = `
UPDATE events.status SET id = id + $1::bigint
 WHERE (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
RETURNING id`
	const storeSQL = `
INSERT INTO events.events (id, value)
SELECT $1::bigint - $2::bigint + n.ordinal, n.value FROM unnest($3::text[]) WITH ORDINALITY AS n (value, ordinal)`
	values := make([]sql.NullString, len(group))
	for i, n := range group {
		values[i] = sql.NullString{String: n.Value, Valid: !n.Pending}
	}
	var id int64
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &id, takeSQL, len(group), sqldb.Milliseconds(wait))
	})
	if err != nil {
		return 0, err
	}
	err = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, storeSQL, id, len(group), pq.Array(values))
		return err
	})
	return event.ID(id), err
}
