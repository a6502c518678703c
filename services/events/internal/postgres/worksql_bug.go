//go:build bug_finish

package postgres

// claimSQL and finishSQL are the mutant "finish without value IS NULL" (rowlock mutation-test): no lock holds what was
// claimed until it is finished, and what another worker has finished meanwhile is finished again.
const (
	claimSQL = `
SELECT id, ctid::text AS place
  FROM events.events
 WHERE value IS NULL
   AND ctid >= $2::tid
 LIMIT $1`

	finishSQL = `
WITH worked AS (
    SELECT id, value
      FROM unnest($1::bigint[], $3::text[]) AS w (id, value)
), gone AS (
    DELETE FROM events.events
     WHERE id = ANY ($1::bigint[])
       AND $2::tid[] IS NOT NULL
    RETURNING id
)
INSERT INTO events.events (id, value)
SELECT g.id, w.value
  FROM gone g
  JOIN worked w ON w.id = g.id`
)
