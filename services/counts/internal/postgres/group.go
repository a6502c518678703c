//go:build !bug_unordered

package postgres

// addGroupSQL locks the rows of a group in the order of their ids and then changes them. Sorted parameters alone
// would not do: the planner picks the order in which a plain UPDATE locks, and replicas deadlock. A row that is
// locked but not changed would have overflowed, and is returned with its value; the guard looks at the value after
// the wait for the lock.
const addGroupSQL = `
WITH held AS MATERIALIZED (
    SELECT v.item_id, v.current_value, c.n, c.delta, c.lowest, c.highest
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
           WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE (SELECT set_config('lock_timeout', $5, true)) IS NOT NULL
     ORDER BY v.item_id
       FOR UPDATE OF v
), changed AS (
    UPDATE counts.count_values v
       SET current_value = v.current_value + h.delta, last_updated_at = clock_timestamp()
      FROM held h
     WHERE v.item_id = h.item_id
       AND v.current_value BETWEEN h.lowest AND h.highest
    RETURNING h.n, v.current_value, date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited
), result AS MATERIALIZED (
    SELECT array_agg(changed.current_value ORDER BY c.n) AS changed, count(changed.n) AS n, max(changed.waited) AS waited
      FROM generate_series(1, cardinality($1)) AS c (n)
      LEFT JOIN changed ON changed.n = c.n
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $6, changed, clock_timestamp() + $7 * interval '1 microsecond'
      FROM result
     WHERE n > 0
)
SELECT changed,
       CASE WHEN n < cardinality($1) THEN (
           SELECT array_agg(h.current_value ORDER BY c.n)
             FROM generate_series(1, cardinality($1)) AS c (n)
             LEFT JOIN held h ON h.n = c.n) END AS held,
       NULL::bigint[] AS locked, coalesce(waited, 0) AS waited
  FROM result`
