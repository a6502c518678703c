package postgres

import (
	"strings"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Items travel as one text, parted by line breaks, which no item holds: the server
// splits that in half the time that it takes to read an array.
//
// Rows are locked in the order of their bytes by an ORDER BY below the INSERT, below
// FOR UPDATE, or below the LATERAL that FOR UPDATE stands in. Sorted parameters
// alone would not do: the planner picks the order in which a plain UPDATE or DELETE
// locks, and two of them deadlock.
//
// Nothing is left to the planner's guess of how many items or rows there are. LATERAL
// looks each item up in the key, a sub-select inside IS TRUE is hashed and never
// joined; what is held is there, so an INSERT of it always meets the row, and ON
// CONFLICT is an UPDATE without a join; a DELETE, or an UPDATE that names what it
// could not find, goes by the rows' places. Left alone the planner takes a list that
// was just filled for one of a single row, and joins it with a thousand items by
// looking at all of both.

// oneMore is attempts and one; the largest bigint stays what it is.
const oneMore = `least(l.attempts, 9223372036854775806) + 1`

// Where the items of a batch are.
const (
	sentItems = `string_to_table($2, E'\n') AS s (item)`
	// The staging of a batch of any length. Behind a transaction pooler a session's
	// temporary tables would be anybody's; this one goes with its transaction.
	stagedItems     = `pg_temp.staged AS s`
	createStagedSQL = `CREATE TEMPORARY TABLE staged (item text COLLATE "C" NOT NULL) ON COMMIT DROP`
	fillStagedSQL   = `INSERT INTO pg_temp.staged (item) SELECT i FROM string_to_table($1, E'\n') AS i`
)

// The parts of a batch's statement. $1 is the list, $2 the items, each once, unless
// they are staged, and the last one the claim, ” for none. What a claim holds is
// looked at by IS TRUE, lest it be looked up by the claim for each item.
const (
	addBeginSQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, s.item
  FROM `

	addOrderSQL = `
 ORDER BY s.item COLLATE "C"`

	// addNewSQL is for items none of which is there; it fails where one is.
	addNewSQL = addBeginSQL + sentItems + addOrderSQL

	addEndSQL = addOrderSQL + `
ON CONFLICT (list, item) DO NOTHING`

	// heldSentSQL locks the items that are there. Those of a page or a claim lie beside
	// each other: where no more than a quarter of what lies between the first and the
	// last was not asked for, all of it is read through the key, which takes a thousand items
	// 4.3 ms in the place of 7.5 (decision 0006). That it is so is found out by reading no further, and the limits
	// of that are nested for the reason that those of a page are. A few items are looked up
	// at once: what was deleted between them and is not vacuumed yet counts for nothing, and
	// would be read all the same. One of near and far is empty.
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

	// heldStagedSQL does so for items that nobody has counted, one by one.
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

	claimedSQL = `(CLAIM = '' OR (l.claim = nullif(CLAIM, '')::uuid AND l.lease_until > ` + leaseClock + `) IS TRUE)`

	updateHeldSQL = `
INSERT INTO iidy.lists AS l (list, item)
SELECT $1, h.item
  FROM held h
ON CONFLICT (list, item) DO UPDATE
   SET `

	// goneSQL ends a delete whose rows are too many to name: it answers with how many it
	// deleted, and whether there were some that it could not, because they were changed
	// while their locks were waited for. The statement does not see where they have moved,
	// the next one of the transaction does.
	goneSQL = `
    RETURNING 1
), counts AS (
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM changed) AS done
)
SELECT done, held > done AS moved, '' AS items FROM counts`

	// namedSQL ends a change that names the items that have moved: the others are done with.
	namedSQL = `
    RETURNING l.item
), counts AS (
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM changed) AS done
)
SELECT done, held > done AS moved, CASE WHEN held > done
       THEN (SELECT string_agg(item, E'\n') FROM (SELECT item FROM held EXCEPT SELECT item FROM changed) AS m) ELSE '' END AS items
  FROM counts`

	// By the rows' places. The claim is looked at once more: while one row's lock is waited for
	// the lease of those that come after it may end.
	deleteHeldSQL = `, changed AS (
    DELETE FROM iidy.lists l` + heldPlacesSQL

	incrementHeldSQL = `, changed AS (
    UPDATE iidy.lists l
       SET attempts = ` + oneMore + heldPlacesSQL

	heldPlacesSQL = `
     WHERE l.ctid = ANY (ARRAY(SELECT place FROM held))
       AND ` + claimedSQL
)

// batchSQL is the statement of a batch whose items are there.
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
