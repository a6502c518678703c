package postgres

// claimSQL locks pending events that no other transaction has locked, from a place in the heap on. ctid is that place:
// not a key, but where the row is stored, which cannot change while the row is locked, so the finish need not search
// for it.
const claimSQL = `
SELECT id, ctid::text AS place
  FROM events.events
 WHERE value IS NULL
   AND ctid >= $2::tid
 LIMIT $1
   FOR UPDATE SKIP LOCKED`

// finishSQL moves the claimed events to the processed ones. It is a DELETE and an INSERT, see the package's comment.
// "value IS NULL" names the partition and makes a repeat harmless.
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
