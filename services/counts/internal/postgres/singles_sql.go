package postgres

// singlesSQL is updatesSQL for a group of single changes that create nothing, each with or without a key: what most
// groups with keys are. A part is a step then, and fits when its count does. Its arrays are:
//
//	counts (item_id, lowest, highest, total, adds): as in updatesSQL, the sum of the adds without a key, and whether
//	       there are any
//	keys   (i, delta, caller, key, fingerprint): what a part adds to count i
//
// It returns and stores the same as updatesSQL.
func singlesSQL(lock, seen string, p places) string {
	return findSQL(lock, seen) + `, keyed AS MATERIALIZED (
    SELECT k.n, k.i, k.delta, k.caller, k.key, k.fingerprint, f.current_value,
           NOT f.locked AND (f.fits OR f.current_value IS NULL) AS decided
      FROM unnest($10::int[], $11::bigint[], $12::text[], $13::text[], $14::bytea[])
           WITH ORDINALITY AS k (i, delta, caller, key, fingerprint, n)
      JOIN found f ON f.i = k.i
), decided AS (
    SELECT k.n::int - 1 AS r, k.caller, k.key, k.fingerprint, NULL::int AS refused_at,
           CASE WHEN k.current_value IS NULL THEN 'not_found' END AS refusal
      FROM keyed k
     WHERE k.decided
), ` + takeKeys("$2", "$3", p) + `, steps AS MATERIALIZED (
    SELECT k.n, k.i, k.current_value, CASE WHEN t.position IS NOT NULL THEN k.delta END AS delta
      FROM keyed k
      LEFT JOIN taken t ON t.position = k.n - 1 AND t.refusal IS NULL
), totals AS MATERIALIZED (
    SELECT f.item_id, (f.current_value + a.total + coalesce(s.total, 0))::bigint AS value
      FROM found f
      JOIN unnest($8::bigint[], $9::bool[]) WITH ORDINALITY AS a (total, adds, i) ON a.i = f.i
      LEFT JOIN (SELECT s.i, sum(s.delta) AS total FROM steps s GROUP BY s.i) s ON s.i = f.i
     WHERE f.current_value IS NOT NULL AND f.fits AND (a.adds OR s.total IS NOT NULL)
), changed AS (
    UPDATE counts.count_values v
       SET current_value = t.value, last_updated_at = clock_timestamp()
      FROM totals t
     WHERE v.item_id = t.item_id
), result AS MATERIALIZED (
    SELECT ARRAY(SELECT (s.current_value + sum(s.delta) OVER (PARTITION BY s.i ORDER BY s.n) - s.delta)::bigint
                   FROM steps s
                  ORDER BY s.n)
        || ARRAY(SELECT f.current_value FROM found f ORDER BY f.i) AS stored
), ` + storeSQL
}
