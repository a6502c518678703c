package postgres

import (
	"context"
	"database/sql"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// insertSQL takes the ids of a group and stores its events, in one statement and one commit. It locks the slot first;
// if the slot does not hold the previous attempt, it updates and inserts nothing. The UPDATE locks the row of status as
// SELECT ... FOR UPDATE would, but only if there is exactly one row.
const insertSQL = `
WITH slot AS MATERIALIZED (
    SELECT id
      FROM events_meta.slots
     WHERE` + groupcommit.LockSlotSQL + `, taken AS (
    UPDATE events.status
       SET id = id + $4
     WHERE EXISTS (SELECT FROM slot)
       AND (SELECT count(*) FROM events.status) = 1
    RETURNING id, extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS waited
), added AS (
    INSERT INTO events.events (id, value)
    SELECT t.id - $4 + n.ordinal, n.value
      FROM taken t, unnest($5::text[]) WITH ORDINALITY AS n (value, ordinal)
    RETURNING id
), answers AS MATERIALIZED (
    SELECT coalesce(json_agg(id ORDER BY id), '[]') AS ids FROM added
), done AS (
    UPDATE events_meta.slots s
       SET attempt = $2, answers = a.ids, used_at = clock_timestamp()
      FROM answers a
     WHERE s.id = (SELECT id FROM slot)
    RETURNING s.answers
)
SELECT d.answers, coalesce((SELECT waited FROM taken), 0) AS waited
  FROM done d`

// insertGroup sends a group: see groupcommit.Config.Send. All groups wait for the one row of status.
func insertGroup(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []event.New) error {
	values := make([]sql.NullString, len(group)) // NULL for a pending event
	for i, n := range group {
		values[i] = sql.NullString{String: n.Value, Valid: !n.Pending}
	}
	if err := a.Run(ctx, s, insertSQL, len(group), pq.Array(values)); err != nil {
		return err
	}
	if string(a.Answers) == "[]" {
		return event.ErrStatus
	}
	return nil
}
