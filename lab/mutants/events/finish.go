// Mutant of services/events/internal/postgres/worksql.go: finish without value IS NULL.

package postgres

// claimSQL takes no lock that holds what was claimed until it is finished, and finishSQL finishes again what another
// worker has finished meanwhile.
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
