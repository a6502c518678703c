package postgres

import (
	"strings"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Items are sent as one text, separated by line breaks, which no item contains: the
// server splits that in half the time that it takes to read an array.
//
// Rows are locked in byte order by an ORDER BY below the INSERT, below FOR UPDATE, or
// below the LATERAL that contains FOR UPDATE. Sorted parameters alone do not suffice: the
// planner chooses the order in which a plain UPDATE or DELETE locks, and two of them
// deadlock.
//
// Nothing depends on the planner's estimate of the number of items or rows. LATERAL looks
// each item up by the key; a sub-select inside IS TRUE is hashed and never joined; an
// INSERT of held rows always conflicts, and ON CONFLICT is an UPDATE without a join; a
// DELETE, or an UPDATE that returns the items it could not find, goes by ctid. Otherwise
// the planner takes a list that was just filled for one of a single row, and joins it with
// a thousand items by a nested loop over both.

// oneMore is attempts + 1, bounded by the largest bigint.
const oneMore = `least(l.attempts, 9223372036854775806) + 1`

// The sources of a batch's items.
const (
	sentItems = `string_to_table($2, E'\n') AS s (item)`
	// A temporary table holds a batch of any length. It is dropped with its transaction:
	// behind a transaction pooler other clients get the same session.
	stagedItems     = `pg_temp.staged AS s`
	createStagedSQL = `CREATE TEMPORARY TABLE staged (item text COLLATE "C" NOT NULL) ON COMMIT DROP`
	fillStagedSQL   = `INSERT INTO pg_temp.staged (item) SELECT i FROM string_to_table($1, E'\n') AS i`
)

// The parts of a batch's statement. $1 is the list, $2 the items, each once, unless they
// are staged, and the last parameter the claim, empty for none. The claim is compared
// inside IS TRUE so that the planner does not look it up by its index for each item.
const (
	addBeginSQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, s.item
  FROM `

	addOrderSQL = `
 ORDER BY s.item COLLATE "C"`

	// addNewSQL adds items none of which is in the list, and fails otherwise.
	addNewSQL = addBeginSQL + sentItems + addOrderSQL

	addEndSQL = addOrderSQL + `
ON CONFLICT (list, item) DO NOTHING`

	// heldSentSQL locks the items that are in the list. Those of a page or a claim are
	// neighbours in the key: when at most a quarter of the rows between the first item and
	// the last are not in the batch, the range is read as a whole, which takes 4.3 ms instead
	// of 7.5 for a thousand items (decision 0006). dense finds that out by reading no further
	// than that; its limits are nested for the same reason as those of a page. Fewer than 100
	// items are always looked up one by one: deleted rows between them that are not vacuumed
	// yet do not count, but would be read. One of near and far is empty.
	heldSentSQL = `
WITH sent AS MATERIALIZED (
    SELECT s.item COLLATE "C" AS item FROM ` + sentItems + `
), span AS MATERIALIZED (
    SELECT min(item) AS first, max(item) AS last, count(*) AS n FROM sent
), dense AS MATERIALIZED (
    SELECT (SELECT n >= 100 FROM span) AND NOT EXISTS (
           SELECT FROM (SELECT FROM (
                  SELECT FROM (
                         SELECT FROM iidy.lists
                          WHERE list = $1 AND item >= (SELECT first FROM span) AND item <= (SELECT last FROM span)
                          ORDER BY item
                          LIMIT (SELECT n + n / 4 + 1 FROM span)) AS l
                   LIMIT (SELECT n + n / 4 + 1 FROM span)) AS l
                  OFFSET (SELECT n + n / 4 FROM span) LIMIT 1) AS beyond) AS yes
), near AS MATERIALIZED (
    SELECT l.ctid AS place, l.item
      FROM iidy.lists l
     WHERE (SELECT yes FROM dense)
       AND l.list = $1 AND l.item >= (SELECT first FROM span) AND l.item <= (SELECT last FROM span)
       AND (l.item IN (SELECT item FROM sent)) IS TRUE
       AND ` + claimedSQL + `
     ORDER BY l.item
       FOR UPDATE
), far AS MATERIALIZED (
    SELECT l.place, l.item
      FROM (SELECT item FROM sent WHERE NOT (SELECT yes FROM dense) ORDER BY 1) AS a
     CROSS JOIN LATERAL (` + lookupSQL + `) AS l
), held AS MATERIALIZED (
    SELECT place, item FROM near UNION ALL SELECT place, item FROM far
)`

	// heldStagedSQL locks staged items, whose number is not known, one by one.
	heldStagedSQL = `
WITH held AS MATERIALIZED (
    SELECT l.place, l.item
      FROM (SELECT DISTINCT s.item FROM ` + stagedItems + ` ORDER BY 1) AS a
     CROSS JOIN LATERAL (` + lookupSQL + `) AS l
)`

	lookupSQL = `
           SELECT l.ctid AS place, l.item
             FROM iidy.lists l
            WHERE l.list = $1 AND l.item = a.item
              AND ` + claimedSQL + `
              FOR UPDATE`

	updateHeldSQL = `
INSERT INTO iidy.lists AS l (list, item)
SELECT $1, h.item
  FROM held h
ON CONFLICT (list, item) DO UPDATE
   SET `

	// goneSQL ends a delete whose rows are too many to return. It returns how many it
	// deleted, and whether there were rows that it could not delete because they were
	// changed while it waited for their locks. This statement does not see where they
	// have moved to, the next one of the transaction does.
	goneSQL = `
    RETURNING 1
), counts AS (
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM changed) AS done
)
SELECT done, held > done AS moved, '' AS items FROM counts`

	// namedSQL ends a change that returns the items that have moved.
	namedSQL = `
    RETURNING l.item
), counts AS (
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM changed) AS done
)
SELECT done, held > done AS moved, CASE WHEN held > done
       THEN (SELECT string_agg(item, E'\n') FROM (SELECT item FROM held EXCEPT SELECT item FROM changed) AS m)
       ELSE '' END AS items
  FROM counts`

	// By ctid. The claim is compared again: while the statement waits for the lock of one
	// row, the lease of the following rows may end.
	deleteHeldSQL = `, changed AS (
    DELETE FROM iidy.lists l` + heldPlacesSQL

	incrementHeldSQL = `, changed AS (
    UPDATE iidy.lists l
       SET attempts = ` + oneMore + heldPlacesSQL

	heldPlacesSQL = `
     WHERE l.ctid = ANY (ARRAY(SELECT place FROM held))
       AND ` + claimedSQL
)

// batchSQL returns the statement of a change of a batch from a source of items.
func batchSQL(change attempt.Change, items string) string {
	if change == attempt.Add {
		return addBeginSQL + items + addEndSQL
	}
	var statement, claim string
	switch {
	case items == sentItems && change == attempt.Delete:
		statement, claim = heldSentSQL+deleteHeldSQL+namedSQL, "$3"
	case items == sentItems:
		statement, claim = heldSentSQL+incrementHeldSQL+namedSQL, "$3"
	case change == attempt.Delete:
		statement, claim = heldStagedSQL+deleteHeldSQL+goneSQL, "$2"
	default:
		statement, claim = heldStagedSQL+updateHeldSQL+`attempts = `+oneMore+`
 WHERE `+claimedSQL, "$2"
	}
	return strings.ReplaceAll(statement, "CLAIM", claim)
}
