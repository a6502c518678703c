package postgres

// createItemKeysSQL makes the table of the keys. It stands for counts.idempotency_keys, with the same places of a key's
// row (see places), because a statement on one worker finds there only what is distributed by the item: a key holds for
// one item. owner and group_id are NULL as long as the row is reserved, and then those of the request and the statement
// that took it; start is the count before the change, or the time of a set in microseconds.
const createItemKeysSQL = `CREATE TABLE counts.item_keys (
    item_id     text COLLATE "C" NOT NULL,
    caller      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    owner       text COLLATE "C",
    fingerprint bytea,
    group_id    uuid,
    start       bigint,
    refusal     text,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (item_id, caller, key)
) WITH (fillfactor = 50)`

// reserveKeysSQL begins the statement that reserves keys, which the rows follow. Citus sends no INSERT in a CTE to a
// worker as a whole, so that keys are there before the statement that takes them. A key that is there stays as it is.
const (
	reserveKeysSQL    = `INSERT INTO counts.item_keys (item_id, caller, key, expires_at) VALUES `
	reserveKeysEndSQL = ` ON CONFLICT (item_id, caller, key) DO NOTHING`
)

// updateOnShardSQL is singlesSQL for counts of one shard. A key is taken by an update of its row, reserved or expired,
// which the statement locks behind the counts. Parameters 5 to 14 are the arrays of singlesSQL; then come how long keys
// live, the statement's own id, and whether there is one part alone, whose overflow is final.
func updateOnShardSQL(lock, seen string) string {
	return slotSQL + `, held AS MATERIALIZED (
    SELECT c.i, v.current_value
      FROM unnest($5::text[]) WITH ORDINALITY AS c (item_id, i)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE v.item_id = ANY ($5)
       AND EXISTS (SELECT FROM slot)
     ORDER BY v.item_id
       FOR UPDATE OF v ` + lock + `
), found AS MATERIALIZED (
    SELECT c.i, c.item_id, h.current_value, h.i IS NULL AND ` + seen + ` AS locked,
           coalesce(h.current_value, 0) BETWEEN c.lowest AND c.highest AS fits
      FROM unnest($5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS c (item_id, lowest, highest, i)
      LEFT JOIN held h ON h.i = c.i
), own AS MATERIALIZED (
    SELECT a.n, k.caller, k.owner, k.group_id, k.expires_at
      FROM unnest($10::int[], $12::text[], $13::text[]) WITH ORDINALITY AS a (i, caller, key, n)
      JOIN found f ON f.i = a.i
      JOIN counts.item_keys k ON k.item_id = f.item_id AND k.key = a.key AND k.caller IN ('', a.caller)
     WHERE k.item_id = ANY ($5)
       AND EXISTS (SELECT FROM slot)
     ORDER BY k.item_id, k.caller, k.key
       FOR UPDATE OF k ` + lock + `
), clock AS MATERIALIZED (
    SELECT c.t, c.t + $15 * interval '1 microsecond' AS until
      FROM (SELECT clock_timestamp() AS t
              FROM (SELECT count(*) FROM held) h, (SELECT count(*) FROM own) o OFFSET 0) c
), placed AS MATERIALIZED (
    SELECT a.n, a.i, a.delta, a.caller, a.key, a.fingerprint,
           ` + placeSQL("a.caller") + ` AS place
      FROM unnest($10::int[], $11::bigint[], $12::text[], $13::text[], $14::bytea[])
           WITH ORDINALITY AS a (i, delta, caller, key, fingerprint, n)
     CROSS JOIN clock c
      JOIN own k ON k.n = a.n AND k.caller = ''
      LEFT JOIN own o ON o.n = a.n AND o.caller = a.caller AND a.caller <> ''
     WHERE ` + freeSQL("a.caller") + ` AND (` + placeSQL("a.caller") + `) IN (k.caller, o.caller)
), steps AS MATERIALIZED (
    SELECT a.n, a.i, f.item_id, a.caller, a.place, a.key, a.fingerprint, f.current_value,
           CASE WHEN f.fits AND f.current_value IS NOT NULL THEN a.delta END AS delta,
           CASE WHEN f.current_value IS NULL THEN 'not_found' WHEN NOT f.fits THEN 'overflow' END AS refusal
      FROM placed a
      JOIN found f ON f.i = a.i
     WHERE NOT f.locked
       AND (f.fits OR f.current_value IS NULL OR $17)
), starts AS MATERIALIZED (
    SELECT s.n, s.item_id, s.caller, s.place, s.key, s.fingerprint, s.refusal,
           (s.current_value + sum(s.delta) OVER (PARTITION BY s.i ORDER BY s.n) - s.delta)::bigint AS start
      FROM steps s
` + applyOnShardSQL
}

// applyOnShardSQL ends the statement: it changes the counts, takes the keys and fills the slot.
const applyOnShardSQL = `), totals AS MATERIALIZED (
    SELECT f.item_id, (f.current_value + a.total + coalesce(s.total, 0))::bigint AS value
      FROM found f
      JOIN unnest($8::bigint[], $9::bool[]) WITH ORDINALITY AS a (total, adds, i) ON a.i = f.i
      LEFT JOIN (SELECT s.i, sum(s.delta) AS total FROM steps s GROUP BY s.i) s ON s.i = f.i
     WHERE f.current_value IS NOT NULL AND f.fits AND (a.adds OR s.total IS NOT NULL)
), changed AS (
    UPDATE counts.count_values v
       SET current_value = t.value, last_updated_at = c.t
      FROM totals t, clock c
     WHERE v.item_id = ANY ($5)
       AND v.item_id = t.item_id
), taken AS (
    UPDATE counts.item_keys k
       SET owner = s.caller, fingerprint = s.fingerprint, group_id = $16, start = s.start, refusal = s.refusal,
           expires_at = c.until
      FROM starts s, clock c
     WHERE k.item_id = ANY ($5)
       AND k.item_id = s.item_id AND k.caller = s.place AND k.key = s.key
), result AS MATERIALIZED (
    SELECT ARRAY(SELECT s.start
                   FROM unnest($10::int[]) WITH ORDINALITY AS a (i, n)
                   LEFT JOIN starts s ON s.n = a.n
                  ORDER BY a.n)
        || ARRAY(SELECT f.current_value FROM found f ORDER BY f.i) AS stored
), stored AS (
    UPDATE counts.slots s
       SET attempt = $4, results = r.stored
      FROM result r
     WHERE s.item_id = $2 AND s.id = $3
       AND (EXISTS (SELECT FROM totals) OR EXISTS (SELECT FROM starts))
)
SELECT r.stored, ARRAY(SELECT f.i FROM found f WHERE f.locked) AS locked,
       ARRAY(SELECT s.n - 1 FROM starts s) AS taken,
       (SELECT greatest(date_part('epoch', c.t - statement_timestamp()), 0) FROM clock c) AS waited,
       EXISTS (SELECT FROM slot) AS ready
  FROM result r`

// updateOnShard is updateOnShardSQL for each kind of pass.
func updateOnShard() passSQL {
	return passSQL{
		wait: updateOnShardSQL("", "false"),
		free: updateOnShardSQL("SKIP LOCKED", `EXISTS (
               SELECT FROM counts.count_values v WHERE v.item_id = ANY ($5) AND v.item_id = c.item_id)`),
	}
}

// setKeyedOnShardSQL is setKeyedSQL for a count of a shard: its parameters after the count are the new value, caller,
// key, fingerprint, the statement's own id, and how long the key lives. It returns the time of the change, whether the
// key was won, and whether there was a slot.
func setKeyedOnShardSQL() string {
	return slotSQL + `, held AS MATERIALIZED (
    SELECT v.item_id
      FROM counts.count_values v
     WHERE v.item_id = $5
       AND EXISTS (SELECT FROM slot)
       FOR UPDATE
), own AS MATERIALIZED (
    SELECT k.caller, k.owner, k.group_id, k.expires_at
      FROM counts.item_keys k
     WHERE k.item_id = $5 AND k.caller IN ('', $7) AND k.key = $8
       AND EXISTS (SELECT FROM slot)
       AND (SELECT count(*) FROM held) >= 0
     ORDER BY k.caller
       FOR UPDATE
), clock AS MATERIALIZED (
    SELECT c.t, c.t + $11 * interval '1 microsecond' AS until, c.n,
           CASE WHEN c.n > 0 THEN (extract(epoch FROM c.t) * 1000000)::bigint END AS micros
      FROM (SELECT clock_timestamp() AS t, h.n
              FROM (SELECT count(*) AS n FROM held) h, (SELECT count(*) FROM own) o OFFSET 0) c
), won AS MATERIALIZED (
    SELECT c.t, c.until, c.micros, c.n, array_remove(ARRAY[c.micros], NULL) AS results,
           ` + placeSQL("$7") + ` AS place
      FROM clock c
      JOIN own k ON k.caller = ''
      LEFT JOIN own o ON o.caller = $7 AND $7 <> ''
     WHERE ` + freeSQL("$7") + ` AND (` + placeSQL("$7") + `) IN (k.caller, o.caller)
), changed AS (
    UPDATE counts.count_values v
       SET current_value = $6, last_updated_at = w.t
      FROM won w
     WHERE v.item_id = $5
       AND w.n > 0
), taken AS (
    UPDATE counts.item_keys k
       SET owner = $7, fingerprint = $9, group_id = $10, start = w.micros, expires_at = w.until,
           refusal = CASE WHEN w.n = 0 THEN 'not_found' END
      FROM won w
     WHERE k.item_id = $5 AND k.caller = w.place AND k.key = $8
), stored AS (
    UPDATE counts.slots s
       SET attempt = $4, results = w.results
      FROM won w
     WHERE s.item_id = $2 AND s.id = $3
)
SELECT (SELECT w.results FROM won w) AS updated, EXISTS (SELECT FROM won) AS won, EXISTS (SELECT FROM slot) AS ready`
}

// placeSQL is where the row of a caller's key stands, by those of all callers, k, and of its own, o. See findPlaces.
// The cleaner may have deleted that row since it was reserved, when it had expired: the key cannot be taken then, and
// its change is not applied.
func placeSQL(caller string) string {
	return `CASE WHEN k.expires_at > c.t AND k.owner <> ` + caller + ` OR o.owner IS NOT NULL
                THEN ` + caller + ` ELSE '' END`
}

// freeSQL says of a caller's key that it is not taken.
func freeSQL(caller string) string {
	return `(o.group_id IS NOT NULL AND o.expires_at > c.t) IS NOT TRUE
       AND (k.group_id IS NOT NULL AND k.expires_at > c.t
            AND (` + caller + ` = '' OR k.owner IN ('', ` + caller + `))) IS NOT TRUE`
}

// storedOnShardSQL is storedSQL for keys of items of one shard.
const storedOnShardSQL = `/* SELECT counts.item_keys */
SELECT a.n, k.fingerprint, k.group_id, k.refusal, 0 AS refused_at,
       CASE WHEN k.refusal IS NULL THEN ARRAY[k.start] END AS starts
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS a (item_id, caller, key, n)
 CROSS JOIN LATERAL (
     SELECT k.fingerprint, k.group_id, k.refusal, k.start
       FROM counts.item_keys k
      WHERE k.item_id = ANY ($1) AND k.item_id = a.item_id AND k.key = a.key AND k.caller IN ('', a.caller)
        AND k.group_id IS NOT NULL AND k.expires_at > clock_timestamp()
        AND (k.caller = a.caller OR k.owner IN ('', a.caller))
      ORDER BY k.caller DESC
      LIMIT 1
 ) AS k`

const (
	// expiredItemKeysSQL returns keys that have expired, the oldest first.
	expiredItemKeysSQL = `
SELECT item_id, caller, key
  FROM counts.item_keys
 WHERE expires_at <= statement_timestamp()
 ORDER BY expires_at
 LIMIT $1`

	// deleteItemKeysSQL deletes those keys of one shard that have expired, and skips what a statement has locked.
	deleteItemKeysSQL = `
WITH expired AS MATERIALIZED (
    SELECT k.item_id, k.caller, k.key
      FROM unnest($1::text[], $2::text[], $3::text[]) AS a (item_id, caller, key)
      JOIN counts.item_keys k ON k.item_id = a.item_id AND k.caller = a.caller AND k.key = a.key
     WHERE k.item_id = ANY ($1) AND k.expires_at <= statement_timestamp()
       FOR UPDATE OF k SKIP LOCKED
), deleted AS (
    DELETE FROM counts.item_keys k
     USING expired e
     WHERE k.item_id = ANY ($1) AND k.item_id = e.item_id AND k.caller = e.caller AND k.key = e.key
    RETURNING 1
)
SELECT count(*) FROM deleted`
)
