package postgres

import (
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// distribution returns the statements that distribute the schema over a Citus cluster by list. Without statistics of
// the column the planner of a worker takes a list for a part of the table: from those of a table that has grown since
// it could take a long list for one of a single row, and join that with all items of a batch.
func distribution() []string {
	return []string{
		`ALTER TABLE iidy.lists ALTER COLUMN list SET STATISTICS 0`,
		`SELECT create_distributed_table('iidy.lists', 'list')`,
		createSlotsSQL,
		`SELECT create_distributed_table('iidy.slots', 'list', colocate_with => 'iidy.lists')`,
		`CREATE INDEX slots_expires_at ON iidy.slots (expires_at)`,
	}
}

const (
	// A slot is written by a transaction on the shard of its list, whose outcome it proves.
	createSlotsSQL = `CREATE TABLE iidy.slots (
    list       text COLLATE "C" NOT NULL,
    id         uuid        NOT NULL,
    applied    boolean     NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (list, id)
)`

	newSlotSQL = `
INSERT INTO iidy.slots (list, id, applied, expires_at)
VALUES ($1, $2, true, statement_timestamp() + $3 * interval '1 microsecond')`

	// resolveSlotSQL returns whether a transaction has written its slot, or takes the slot, which makes the
	// transaction fail. It waits for one in progress.
	resolveSlotSQL = `
INSERT INTO iidy.slots (list, id, applied, expires_at)
VALUES ($1, $2, false, statement_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (list, id) DO UPDATE SET expires_at = excluded.expires_at
RETURNING applied`

	// expiredSlotsSQL returns slots that have expired, the oldest first.
	expiredSlotsSQL = `
SELECT list, id
  FROM iidy.slots
 WHERE expires_at <= statement_timestamp()
 ORDER BY expires_at
 LIMIT $1`

	// deleteSlotsSQL deletes those slots of one shard, and skips what another replica deletes.
	deleteSlotsSQL = `
WITH expired AS MATERIALIZED (
    SELECT s.list, s.id
      FROM unnest($1::text[], $2::uuid[]) AS a (list, id)
      JOIN iidy.slots s ON s.list = a.list AND s.id = a.id
     WHERE s.list = ANY ($1) AND s.expires_at <= statement_timestamp()
       FOR UPDATE OF s SKIP LOCKED
), deleted AS (
    DELETE FROM iidy.slots s
     USING expired e
     WHERE s.list = ANY ($1) AND s.list = e.list AND s.id = e.id
    RETURNING 1
)
SELECT count(*) FROM deleted`
)

// The statements name the list, or the lists of one shard, at each mention of a table, and change it in a CTE: so each
// goes to its shard's worker as a whole, locks in order included. They read the clock in a CTE, behind the locks, and
// look rows up by the key: by ctid they would not find those that have moved.

// fewHeldSQL and fewCallsSQL read held by limits as those of a page, so that the planner expects one row for a
// thousand: it then looks each up by the key, where it would read the whole list to join it with them. Claims are
// compared inside IS TRUE for the same reason.
const (
	fewHeldSQL = `(SELECT item FROM (SELECT item FROM (SELECT item FROM held` +
		limitSQL + limitSQL + limitSQL

	fewCallsSQL = `(SELECT list, item, times FROM (SELECT list, item, times FROM (SELECT list, item, times FROM held` +
		limitSQL + limitSQL + limitSQL

	limitSQL = ` LIMIT (SELECT count(*) FROM held)) AS h`
)

// The statements of groups of calls for single items of one shard. $1 and $2 are the lists and the items, $3 how often
// each was called for. They return what those of one server do.
const (
	getOnShardSQL = `
SELECT ARRAY(SELECT coalesce((SELECT l.attempts
                                FROM iidy.lists l
                               WHERE l.list = ANY ($1) AND l.list = c.list AND l.item = c.item), -1)
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (list, item, n)
              ORDER BY c.n) AS attempts`

	heldOnShardSQL = `
WITH asked AS MATERIALIZED (
    SELECT c.list COLLATE "C" AS list, c.item COLLATE "C" AS item, c.times
      FROM unnest($1::text[], $2::text[], $3::bigint[]) AS c (list, item, times)
), held AS MATERIALIZED (
    SELECT h.list, h.item, a.times
      FROM (SELECT list, item, times FROM asked ORDER BY list, item) AS a
     CROSS JOIN LATERAL (
           SELECT l.list, l.item
             FROM iidy.lists l
            WHERE l.list = ANY ($1) AND l.list = a.list AND l.item = a.item
              FOR UPDATE`

	clockOnShardSQL = `) AS h
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS t, count(*) AS n FROM held
), changed AS (`

	incrementOnShardSQL = `
    UPDATE iidy.lists l
       SET attempts = least(l.attempts, 9223372036854775807 - h.times) + h.times
      FROM ` + fewCallsSQL

	deleteOnShardSQL = `
    DELETE FROM iidy.lists l
     USING ` + fewCallsSQL

	changedOnShardSQL = `
     WHERE l.list = ANY ($1) AND l.list = h.list AND l.item = h.item
    RETURNING l.list, l.item
)`

	waitedOnShardSQL = `
SELECT c.list, c.item, false AS locked, greatest(date_part('epoch', k.t - statement_timestamp()), 0) AS waited
  FROM changed c
 CROSS JOIN clock k`

	// freeOnShardSQL returns the locked rows, too, so that they are not taken for missing ones.
	freeOnShardSQL = `
SELECT a.list, a.item, c.item IS NULL AS locked, 0 AS waited
  FROM asked a
  LEFT JOIN changed c ON c.list = a.list AND c.item = a.item
 WHERE c.item IS NOT NULL
    OR EXISTS (SELECT FROM iidy.lists l WHERE l.list = ANY ($1) AND l.list = a.list AND l.item = a.item)`
)

// groupOnShardSQL returns the statement of a group of increments or deletes.
func groupOnShardSQL(change attempt.Change, skipLocked bool) string {
	lock, changed, result := "", incrementOnShardSQL, waitedOnShardSQL
	if change == attempt.Delete {
		changed = deleteOnShardSQL
	}
	if skipLocked {
		lock, result = " SKIP LOCKED", freeOnShardSQL
	}
	return heldOnShardSQL + lock + clockOnShardSQL + changed + changedOnShardSQL + result
}

// addOnShardSQL returns the statement that adds items in the order of its parameters, a list and an item each. VALUES
// go to the worker as they are: what a SELECT returns Citus collects on the coordinator, and would commit in two
// phases: it answers before the second one has ended.
func addOnShardSQL(items int) string {
	var values strings.Builder
	for i := range items {
		fmt.Fprintf(&values, ", ($%d, $%d)", 2*i+1, 2*i+2)
	}
	return `
INSERT INTO iidy.lists AS l (list, item)
VALUES ` + values.String()[2:] + `
ON CONFLICT (list, item) DO NOTHING
RETURNING l.list, l.item, false AS locked, 0 AS waited`
}

// The statements of a batch. $1 is the list, $2 the items, each once, and $3 the claim, or the id of the transaction's
// slot: a SELECT of that row goes to the worker as VALUES do. They return how many items they changed.
const (
	addBatchOnShardSQL = `
INSERT INTO iidy.lists (list, item)
SELECT s.list, i.item
  FROM iidy.slots s
 CROSS JOIN (SELECT i.item
               FROM string_to_table($2, E'\n') AS i (item)
              ORDER BY i.item COLLATE "C") AS i
 WHERE s.list = $1 AND s.id = $3
ON CONFLICT (list, item) DO NOTHING`

	countOnShardSQL = `
    RETURNING 1
)
SELECT count(*) FROM changed`

	clockOfHeldSQL = `
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS t, count(*) AS n FROM held
), changed AS (`

	batchHeldSQL = `
WITH held AS MATERIALIZED (
    SELECT h.item
      FROM (SELECT s.item COLLATE "C" AS item FROM ` + sentItems + ` ORDER BY 1) AS a
     CROSS JOIN LATERAL (
           SELECT l.item
             FROM iidy.lists l
            WHERE l.list = $1 AND l.item = a.item
              AND ` + claimedOnShardSQL + `
              FOR UPDATE) AS h` + clockOfHeldSQL

	incrementBatchSQL = `
    UPDATE iidy.lists l
       SET attempts = ` + oneMore + `
      FROM ` + fewHeldSQL + `, clock k`

	deleteBatchSQL = `
    DELETE FROM iidy.lists l
     USING ` + fewHeldSQL + `, clock k`

	changedBatchSQL = `
     WHERE l.list = $1 AND l.item = h.item
       AND ` + claimedOnShardSQL + countOnShardSQL
)

// A batch of any length is read 1,000 items at a time.
const (
	readStagedSQL = `
DECLARE staged_items NO SCROLL CURSOR FOR
 SELECT DISTINCT s.item FROM ` + stagedItems + ` ORDER BY s.item`

	fetchStagedSQL = `FETCH 1000 FROM staged_items`
)

// batchOnShardSQL returns the statement of an increment or a delete of a batch.
func batchOnShardSQL(change attempt.Change) string {
	changed := incrementBatchSQL
	if change == attempt.Delete {
		changed = deleteBatchSQL
	}
	return atTimes(batchHeldSQL) + changed + atClock(changedBatchSQL)
}

// The statements of claims have the parameters and results of those of one server, but return a count.
const (
	claimOnShardSQL = `
WITH free AS MATERIALIZED (
    SELECT item, expired
      FROM (SELECT item, expired
              FROM (SELECT item, claim IS NOT NULL AS expired
                      FROM iidy.lists
                     WHERE list = $1 AND item >= $2 AND (lease_until IS NULL OR lease_until <= clock_timestamp())
                     ORDER BY item
                       FOR UPDATE SKIP LOCKED) AS f
             LIMIT (SELECT $3::bigint)) AS f
     LIMIT (SELECT $3::bigint)
), need AS MATERIALIZED (
    SELECT coalesce(sum(octet_length(item) + 21), 0) AS size FROM free
), lease AS MATERIALIZED (
    SELECT gen_random_uuid() AS claim, clock_timestamp() + $4::bigint * interval '1 microsecond' AS until
), taken AS (
    UPDATE iidy.lists l
       SET claim = e.claim, lease_until = e.until
      FROM free f, lease e
     WHERE l.list = $1 AND l.item = f.item
       AND (SELECT size FROM need) <= $6
    RETURNING l.item, l.attempts
)
SELECT (SELECT claim FROM lease)::text AS claim, (SELECT until FROM lease) AS until,
       (SELECT size FROM need) AS size, coalesce((SELECT min(item) FROM free), '') AS first,
       coalesce(string_agg(t.item || ' ' || t.attempts, E'\n' ORDER BY t.item), '') AS entries,
       (SELECT count(*) FROM free WHERE expired) AS expired,
       (SELECT count(*) FROM (SELECT FROM iidy.lists
                               WHERE list = $1 AND item >= $2 AND item < (SELECT min(item) FROM free)
                               LIMIT $5::bigint + 1) AS passed) AS passed
  FROM taken t`

	heldClaimOnShardSQL = `
WITH held AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE list = $1 AND claim = $2::uuid AND lease_until > clock_timestamp()
     ORDER BY item
       FOR UPDATE` + clockOfHeldSQL

	stillClaimedOnShardSQL = `
      FROM ` + fewHeldSQL + `, clock k
     WHERE l.list = $1 AND l.item = h.item
       AND (l.claim = $2::uuid AND l.lease_until > k.t) IS TRUE` + countOnShardSQL

	releaseOnShardSQL = heldClaimOnShardSQL + `
    UPDATE iidy.lists l
       SET claim = NULL, lease_until = NULL` + stillClaimedOnShardSQL

	// timestamptz + interval is not immutable, and Citus takes no such expression in SET.
	extendOnShardSQL = `
WITH held AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE list = $1 AND claim = $2::uuid AND lease_until > clock_timestamp()
     ORDER BY item
       FOR UPDATE
), clock AS MATERIALIZED (
    SELECT c.t, c.t + $3::bigint * interval '1 microsecond' AS until
      FROM (SELECT clock_timestamp() AS t, count(*) AS n FROM held OFFSET 0) AS c
), changed AS (
    UPDATE iidy.lists l
       SET lease_until = k.until` + stillClaimedOnShardSQL

	abandonOnShardSQL = `
WITH held AS MATERIALIZED (
    SELECT l.item
      FROM iidy.lists l
     WHERE l.list = $1 AND l.attempts >= $2
       AND ` + claimedOnShardSQL + `
     ORDER BY l.item
       FOR UPDATE` + clockOfHeldSQL + `
    DELETE FROM iidy.lists l
     USING held h, clock k`
)

// abandonOnShard returns abandonSQL for one shard.
func abandonOnShard() string {
	return atTimes(abandonOnShardSQL) + atClock(changedBatchSQL)
}
