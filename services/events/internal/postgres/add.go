//go:build !bug_sequence

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add stores a new event under the next id and returns the id once it is committed. Concurrent adds share one
// statement: the coalescer calls insertGroup with those that came while the statement before was under way, and
// returns to each caller its own id.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.adds.Do(ctx, n) }

// insertSQL takes the ids of a group and stores it, in one statement and one transaction. The UPDATE locks the row of
// status as SELECT ... FOR UPDATE would, and holds it until the statement has committed. It sets lock_timeout for
// itself, in a sub-select that is evaluated before a row is touched, and it finds nothing to update, and so inserts
// nothing, unless there is exactly one row.
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

// insertGroup implements allocate.Insert. The one row of status cannot be skipped, so a pass that skips locked rows
// inserts nothing.
func (s *Store) insertGroup(
	ctx context.Context, pass coalesce.Pass, group []event.New,
) ([]coalesce.Answer[event.ID], error) {
	if pass.SkipLocked {
		return nil, coalesce.ErrLockWait
	}
	var row struct {
		Last   int64   `db:"id"`     // the group's last id
		Waited float64 `db:"waited"` // for the row of status, in seconds
		Added  int     `db:"added"`
	}
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &row, insertSQL, len(group), sqldb.Milliseconds(pass.Wait), pq.Array(values(group)))
	})
	switch {
	case sqldb.LockTimedOut(err):
		s.lock.Waited(contention.InDatabase, pass.Wait)
		return nil, fmt.Errorf("%w: %w", coalesce.ErrLockWait, err)
	case errors.Is(err, sql.ErrNoRows):
		return nil, event.ErrStatus
	case err != nil:
		return nil, err
	case row.Added != len(group): // a trigger or a rule that is no part of the schema
		return nil, fmt.Errorf("the database stored %d events of %d", row.Added, len(group))
	}
	s.lock.Waited(contention.InDatabase, time.Duration(row.Waited*float64(time.Second)))
	return allocate.Answers(row.Last, len(group)), nil
}
