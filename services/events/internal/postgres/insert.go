//go:build !bug_sequence

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// insertSQL takes the ids of a group and stores it, in one statement and one
// transaction. The UPDATE locks the row of status as SELECT ... FOR UPDATE would,
// and holds it until the statement has committed. It sets lock_timeout for itself,
// in a sub-select that is evaluated before a row is touched, and it finds nothing
// to update, and so inserts nothing, unless there is exactly one row.
const insertSQL = `
WITH taken AS (
    UPDATE events.status
       SET id = id + $1
     WHERE (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
       AND (SELECT count(*) FROM events.status) = 1
    RETURNING id, extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS waited
), added AS (
    INSERT INTO events.events (id, value)
    SELECT t.id - $1 + n.ordinal, n.value
      FROM taken t, unnest($3::text[]) WITH ORDINALITY AS n (value, ordinal)
    RETURNING 1
)
SELECT t.id, t.waited, (SELECT count(*) FROM added) AS added
  FROM taken t`

// insert is the allocator's.
func (s *Store) insert(ctx context.Context, wait time.Duration, group []event.New) (event.ID, error) {
	values := make([]sql.NullString, len(group))
	for i, n := range group {
		values[i] = sql.NullString{String: n.Value, Valid: !n.Pending}
	}
	var row struct {
		ID     int64   `db:"id"`
		Waited float64 `db:"waited"`
		Added  int     `db:"added"`
	}
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &row, insertSQL, len(group), sqldb.Milliseconds(wait), pq.Array(values))
	})
	switch {
	case sqldb.LockTimedOut(err):
		s.lock.Waited(contention.InDatabase, wait)
		return 0, err
	case errors.Is(err, sql.ErrNoRows):
		return 0, event.ErrStatus
	case err != nil:
		return 0, err
	case row.Added != len(group):
		// A trigger or a rule that somebody has put there.
		return 0, errors.New("the database stored another number of events than it was given")
	}
	s.lock.Waited(contention.InDatabase, time.Duration(row.Waited*float64(time.Second)))
	return event.ID(row.ID), nil
}
