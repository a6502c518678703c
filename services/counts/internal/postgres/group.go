package postgres

// lockOrder is the order in which a group with updates locks its counts.
const lockOrder = "ORDER BY v.item_id"

// addGroupSQL locks the rows of a group in the order of their ids and then changes them. Sorted parameters alone
// would not do: the planner picks the order in which a plain UPDATE locks, and replicas deadlock. A row that is
// locked but not changed would have overflowed, and is returned with its value; the guard looks at the value after
// the wait for the lock. Rows are returned as one array, of their places in the group and then of their values: that
// costs less than a row for each count, and what was changed goes into the journal as it is.
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
    SELECT array_agg(n) || array_agg(current_value) AS changed, count(*) AS rows, max(waited) AS waited
      FROM changed
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $6, changed, clock_timestamp() + $7 * interval '1 microsecond'
      FROM result
     WHERE rows > 0
)
SELECT changed,
       CASE WHEN rows < cardinality($1) THEN (SELECT array_agg(n) || array_agg(current_value) FROM held) END AS held,
       NULL::bigint[] AS locked, coalesce(waited, 0) AS waited
  FROM result`
