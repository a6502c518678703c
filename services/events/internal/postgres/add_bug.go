//go:build bug_sequence

package postgres

import (
	"context"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add stores a new event and returns its id.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.adds.Do(ctx, n) }

// insertGroup is the mutant "a sequence for the row of status" (rowlock mutation-test): as with a sequence, ids are
// given out for good before the events that they are for are stored.
func (s *Store) insertGroup(
	ctx context.Context, pass coalesce.Pass, group []event.New,
) ([]coalesce.Answer[event.ID], error) {
	const takeSQL = `
UPDATE events.status SET id = id + $1::bigint
 WHERE (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
RETURNING id`
	const storeSQL = `
INSERT INTO events.events (id, value)
SELECT $1::bigint - $2::bigint + n.ordinal, n.value FROM unnest($3::text[]) WITH ORDINALITY AS n (value, ordinal)`
	if pass.SkipLocked {
		return nil, coalesce.ErrLockWait
	}
	var last int64
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &last, takeSQL, len(group), sqldb.Milliseconds(pass.Wait))
	})
	if err != nil {
		return nil, err
	}
	err = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, storeSQL, last, len(group), pq.Array(values(group)))
		return err
	})
	return allocate.Answers(last, len(group)), err
}
