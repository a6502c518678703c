// Mutant of services/events/internal/postgres/add.go: a sequence for the row of status.

package postgres

import (
	"context"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add stores a new event and returns its id.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.adds.Do(ctx, n) }

// insertGroup gives out ids for good before the events that they are for are stored, as a sequence does.
func insertGroup(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []event.New) error {
	const takeSQL = `
UPDATE events.status SET id = id + $1::bigint
 WHERE (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
RETURNING id`
	const storeSQL = `
INSERT INTO events.events (id, value)
SELECT $1::bigint - $2::bigint + n.ordinal, n.value FROM unnest($3::text[]) WITH ORDINALITY AS n (value, ordinal)`

	var last int64
	if err := s.GetContext(ctx, &last, takeSQL, len(group), sqldb.Milliseconds(a.LockWait)); err != nil {
		return err
	}
	if _, err := s.ExecContext(ctx, storeSQL, last, len(group), pq.Array(values(group))); err != nil {
		return err
	}

	ids := make([]int64, len(group))
	for i := range ids {
		ids[i] = last - int64(len(group)-1-i)
	}
	return a.Store(ctx, s, ids)
}
