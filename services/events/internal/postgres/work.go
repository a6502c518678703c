package postgres

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/eventdb"
)

// claimSQL locks pending events that no other transaction has locked, from a ctid on. The ctid of a row is not a key
// but its location in the heap. It cannot change while the row is locked, so finishSQL finds the row without a search.
const claimSQL = `
SELECT id, ctid::text AS place
  FROM events.events
 WHERE value IS NULL
   AND ctid >= $2::tid
 LIMIT $1
   FOR UPDATE SKIP LOCKED`

// finishSQL moves the claimed events to the processed ones by DELETE and INSERT: see the package's comment. "value IS
// NULL" selects the partition and makes a repeat harmless. The INSERT names every column: one that is left out is lost,
// also by workers of the previous release during an upgrade.
const finishSQL = `
WITH worked AS (
    SELECT id, value
      FROM unnest($1::bigint[], $3::text[]) AS w (id, value)
), gone AS (
    DELETE FROM events.events
     WHERE value IS NULL
       AND ctid = ANY ($2::tid[])
       AND id = ANY ($1::bigint[])
    RETURNING id
)
INSERT INTO events.events (id, value)
SELECT g.id, w.value
  FROM gone g
  JOIN worked w ON w.id = g.id`

// Work implements event.Queue.
func (s *Store) Work(ctx context.Context, limit int, value func(event.ID) string) (int, error) {
	from := s.start.next()
	n, last, err := s.work(ctx, limit, from, value)
	if err == nil && n < limit && from != heapStart {
		// No more events follow, so the next claim reads from the start.
		s.start.reset()
		if n == 0 {
			n, last, err = s.work(ctx, limit, heapStart, value)
		}
	}

	if err == nil && n == limit {
		s.start.move(last)
	}
	return n, err
}

// work runs one transaction. It returns the number of events and the ctid of the last one.
func (s *Store) work(
	ctx context.Context, limit int, from string, value func(event.ID) string,
) (n int, last string, err error) {
	err = s.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var rows []struct {
			ID    int64  `db:"id"`
			Place string `db:"place"`
		}
		err := tx.SelectContext(ctx, &rows, claimSQL, limit, from)
		n = len(rows)
		switch {
		case err != nil:
			return err
		case n == 0:
			return eventdb.ErrNothing
		}

		ids, places, values := make([]int64, n), make([]string, n), make([]string, n)
		for i, r := range rows {
			ids[i], places[i], values[i] = r.ID, r.Place, value(event.ID(r.ID))
		}

		last = places[n-1]
		return eventdb.Change(ctx, tx, n, finishSQL, pq.Array(ids), pq.Array(places), pq.Array(values))
	})
	if err != nil && !errors.Is(err, eventdb.ErrNothing) {
		return 0, "", err
	}
	return n, last, nil
}
