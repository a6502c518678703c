// Mutant of services/counts/internal/postgres/group.go: a batch without ordered locks.

package postgres

// lockOrder is empty: the counts are locked as they come.
const lockOrder = ""

// addGroupSQL gets sorted parameters, but the planner picks the order in which an UPDATE locks.
const addGroupSQL = `
WITH asked AS (
    SELECT c.item_id, c.delta, c.lowest, c.highest, c.n
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
           WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
     WHERE (SELECT set_config('lock_timeout', $5, true)) IS NOT NULL
), changed AS (
    UPDATE counts.count_values v
       SET current_value = v.current_value + a.delta, last_updated_at = clock_timestamp()
      FROM asked a
     WHERE v.item_id = a.item_id
       AND v.current_value BETWEEN a.lowest AND a.highest
    RETURNING a.n, v.current_value, date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited
), result AS MATERIALIZED (
    SELECT array_agg(n) || array_agg(current_value) AS changed, count(*) AS rows, max(waited) AS waited
      FROM changed
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $6, changed, clock_timestamp() + $7 * interval '1 microsecond'
      FROM result
     WHERE rows > 0
)
SELECT changed,
       CASE WHEN rows < cardinality($1) THEN (
           SELECT array_agg(a.n) || array_agg(v.current_value)
             FROM asked a
             JOIN counts.count_values v ON v.item_id = a.item_id) END AS held,
       NULL::bigint[] AS locked, coalesce(waited, 0) AS waited
  FROM result`
