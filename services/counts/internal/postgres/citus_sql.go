package postgres

// distribution returns the statements that distribute the schema over a Citus cluster. counts.journal and
// counts.idempotency_keys stay on the coordinator, unused: Citus sends no statement with an INSERT in a CTE to a worker
// as a whole, and a row for each group or key takes one. Slots and the keys of items are rows that are there already,
// and updated.
func distribution() []string {
	return []string{
		`SELECT create_distributed_table('counts.count_values', 'item_id')`,
		createSlotsSQL,
		`SELECT create_distributed_table('counts.slots', 'item_id', colocate_with => 'counts.count_values')`,
		createItemKeysSQL,
		`CREATE INDEX item_keys_expires_at ON counts.item_keys (expires_at)`,
		`SELECT create_distributed_table('counts.item_keys', 'item_id', colocate_with => 'counts.count_values')`,
	}
}

const createSlotsSQL = `CREATE TABLE counts.slots (
    item_id    text COLLATE "C" NOT NULL,
    id         uuid        NOT NULL,
    attempt    bigint      NOT NULL DEFAULT 0,
    results    bigint[],
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (item_id, id)
) WITH (fillfactor = 20)`

// The statements name the distribution column at each mention of a table, so that each goes to its shard's worker as a
// whole, lock_timeout and locks in order included. They read the clock in a CTE, behind the locks: Citus refuses it in
// SET and RETURNING. slotSQL begins each: a statement whose attempt has been taken, by itself or by resolveSlotSQL,
// finds no slot and changes nothing. Its parameters are the lock_timeout, the slot's item and id, and the attempt.
const slotSQL = `
WITH slot AS MATERIALIZED (
    SELECT s.id
      FROM counts.slots s
     WHERE s.item_id = $2 AND s.id = $3 AND s.attempt < $4
       AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
       FOR UPDATE
)`

// addOnShardWaiting and addOnShardFree return what addGroupSQL and addFreeSQL return, and whether there was a slot.
const (
	addOnShardWaiting = addOnShardHead + addOnShardTail
	addOnShardFree    = addOnShardHead + "SKIP LOCKED" + addOnShardTail

	addOnShardHead = slotSQL + `, held AS MATERIALIZED (
    SELECT v.item_id, v.current_value, c.n, c.delta, c.lowest, c.highest
      FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
           WITH ORDINALITY AS c (item_id, delta, lowest, highest, n)
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE v.item_id = ANY ($5)
       AND EXISTS (SELECT FROM slot)
     ORDER BY v.item_id
       FOR UPDATE OF v `

	addOnShardTail = `
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS t, count(*) AS n
      FROM held
), changed AS (
    UPDATE counts.count_values v
       SET current_value = v.current_value + h.delta, last_updated_at = k.t
      FROM held h, clock k
     WHERE v.item_id = ANY ($5)
       AND v.item_id = h.item_id
       AND v.current_value BETWEEN h.lowest AND h.highest
    RETURNING h.n, v.current_value
), result AS MATERIALIZED (
    SELECT array_agg(n) || array_agg(current_value) AS changed, count(*) AS rows
      FROM changed
), stored AS (
    UPDATE counts.slots s
       SET attempt = $4, results = r.changed
      FROM result r
     WHERE s.item_id = $2 AND s.id = $3
       AND r.rows > 0
)
SELECT changed,
       CASE WHEN rows < cardinality($5) THEN (SELECT array_agg(n) || array_agg(current_value) FROM held) END AS held,
       (SELECT array_agg(c.n)
          FROM unnest($5::text[]) WITH ORDINALITY AS c (item_id, n)
          JOIN counts.count_values v ON v.item_id = c.item_id
         WHERE v.item_id = ANY ($5)
           AND NOT EXISTS (SELECT FROM held h WHERE h.n = c.n)) AS locked,
       (SELECT greatest(date_part('epoch', k.t - statement_timestamp()), 0) FROM clock k) AS waited,
       EXISTS (SELECT FROM slot) AS ready
  FROM result`
)

const (
	heldOnShardSQL = `, held AS MATERIALIZED (
    SELECT v.item_id
      FROM counts.count_values v
     WHERE v.item_id = $5
       AND EXISTS (SELECT FROM slot)
       FOR UPDATE
), clock AS MATERIALIZED (
    SELECT c.t, c.n, (extract(epoch FROM c.t) * 1000000)::bigint AS micros
      FROM (SELECT clock_timestamp() AS t, count(*) AS n FROM held OFFSET 0) c
), changed AS (`

	storeOnShardSQL = `
), stored AS (
    UPDATE counts.slots s
       SET attempt = $4, results = ARRAY[k.micros]
      FROM clock k
     WHERE s.item_id = $2 AND s.id = $3
       AND k.n > 0
)
SELECT CASE WHEN k.n > 0 THEN k.micros END AS updated,
       EXISTS (SELECT FROM slot) AS ready
  FROM clock k`

	setOnShardSQL = slotSQL + heldOnShardSQL + `
    UPDATE counts.count_values v
       SET current_value = $6, last_updated_at = k.t
      FROM clock k
     WHERE v.item_id = $5
       AND k.n > 0` + storeOnShardSQL

	deleteOnShardSQL = slotSQL + heldOnShardSQL + `
    DELETE FROM counts.count_values v
     USING clock k
     WHERE v.item_id = $5
       AND k.n > 0` + storeOnShardSQL

	// createOnShardSQL has no slot: Citus takes no INSERT with one. Its lost answer stays unknown.
	createOnShardSQL = `
INSERT INTO counts.count_values (item_id, current_value, last_updated_at)
VALUES ($1, $2, clock_timestamp())
ON CONFLICT (item_id) DO NOTHING
RETURNING last_updated_at`

	newSlotSQL = `
INSERT INTO counts.slots (item_id, id, expires_at)
VALUES ($1, $2, statement_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (item_id, id) DO UPDATE SET expires_at = excluded.expires_at
RETURNING attempt`

	// resolveSlotSQL returns what an attempt has stored, or takes the attempt. It waits for a statement that has the
	// slot locked, in progress or prepared.
	resolveSlotSQL = `
UPDATE counts.slots
   SET results = CASE WHEN attempt = $3 THEN results END, attempt = $3
 WHERE item_id = $1 AND id = $2 AND attempt <= $3
RETURNING results`

	deleteSlotsSQL = `
WITH deleted AS (
    DELETE FROM counts.slots WHERE expires_at < statement_timestamp() RETURNING 1
)
SELECT count(*) FROM deleted`
)
