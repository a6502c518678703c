package postgres

import "github.com/rowlock/rowlock/services/iidy/internal/attempt"

// The statements of calls for single items. $1 and $2 are the lists and the items, $3 the
// lock_timeout, which they set themselves, in a sub-select that is evaluated before any row
// is touched: that saves the round trip of a SET LOCAL and works behind a transaction
// pooler. $4 is how often each item was called for. They return a row for each item that
// they changed: list, item, whether another transaction has it locked instead, and waited,
// the seconds until it was changed, by the server's clock, without commit and network.
const (
	mayWaitSQL = `(SELECT set_config('lock_timeout', $3, true)) IS NOT NULL`

	returnChangedSQL = `
RETURNING l.list, l.item, false AS locked,
          date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited`
)

// The statements of a group of calls for one item.
const (
	addOneSQL = `
INSERT INTO iidy.lists AS l (list, item)
SELECT $1, $2
 WHERE ` + mayWaitSQL + `
ON CONFLICT (list, item) DO NOTHING` + returnChangedSQL

	incrementOneSQL = `
UPDATE iidy.lists l
   SET attempts = least(l.attempts, 9223372036854775807 - $4::bigint) + $4
 WHERE l.list = $1 AND l.item = $2
   AND ` + mayWaitSQL + returnChangedSQL

	deleteOneSQL = `
DELETE FROM iidy.lists l
 WHERE l.list = $1 AND l.item = $2
   AND ` + mayWaitSQL + returnChangedSQL
)

// The statements of a group of calls for several items. They lock in byte order, by an
// ORDER BY below the INSERT or below the LATERAL that contains FOR UPDATE.
const (
	addGroupSQL = `
INSERT INTO iidy.lists AS l (list, item)
SELECT c.list, c.item
  FROM unnest($1::text[], $2::text[]) AS c (list, item)
 WHERE ` + mayWaitSQL + inOrderSQL + `
ON CONFLICT (list, item) DO NOTHING` + returnChangedSQL

	// LATERAL leaves the planner a single order: each item is looked up, locked and changed.
	incrementGroupSQL = `
INSERT INTO iidy.lists AS l (list, item, attempts)
SELECT h.list, h.item, a.times
  FROM (` + askedTimesSQL + inOrderSQL + `) AS a
 CROSS JOIN LATERAL (` + heldItemSQL + `) AS h` + incrementHeldItemsSQL + returnChangedSQL

	// Without WITH the planner could look the items up in another order before it locks them.
	deleteGroupSQL = `
WITH held AS MATERIALIZED (
SELECT h.list, h.item
  FROM (
SELECT c.list, c.item
  FROM unnest($1::text[], $2::text[]) AS c (list, item)
 WHERE ` + mayWaitSQL + inOrderSQL + `) AS a
 CROSS JOIN LATERAL (` + heldItemSQL + `) AS h
)` + deleteHeldItemsSQL + returnChangedSQL

	askedTimesSQL = `
SELECT c.list, c.item, c.times
  FROM unnest($1::text[], $2::text[], $4::bigint[]) AS c (list, item, times)
 WHERE ` + mayWaitSQL

	inOrderSQL = `
 ORDER BY list COLLATE "C", item COLLATE "C"`

	heldItemSQL = `
       SELECT l.list, l.item
         FROM iidy.lists l
        WHERE l.list = a.list AND l.item = a.item
          FOR UPDATE`

	// A held row exists, so the INSERT always conflicts: an UPDATE that looks the row up.
	incrementHeldItemsSQL = `
ON CONFLICT (list, item) DO UPDATE
   SET attempts = least(l.attempts, 9223372036854775807 - excluded.attempts) + excluded.attempts`

	// ANY makes the planner look each item up by the key. With = it would join them with
	// the whole key while the table is small, and keep that plan.
	deleteHeldItemsSQL = `
DELETE FROM iidy.lists l
 USING held h
 WHERE l.list = ANY (ARRAY[h.list]) AND l.item = h.item`
)

// The statements of a group that skip rows locked by other transactions.
const (
	incrementFreeSQL = heldFreeSQL + `, changed AS (
INSERT INTO iidy.lists AS l (list, item, attempts)
SELECT h.list, h.item, h.times
  FROM held h` + incrementHeldItemsSQL + `
)` + freeSQL

	deleteFreeSQL = heldFreeSQL + `, changed AS (` + deleteHeldItemsSQL + `
)` + freeSQL

	heldFreeSQL = `
WITH asked AS MATERIALIZED (` + askedTimesSQL + `
), held AS MATERIALIZED (
SELECT h.list, h.item, a.times
  FROM (SELECT list, item, times FROM asked` + inOrderSQL + `) AS a
 CROSS JOIN LATERAL (` + heldItemSQL + ` SKIP LOCKED) AS h
)`

	// freeSQL returns the locked rows, too, so that they are not taken for missing ones.
	freeSQL = `
SELECT a.list, a.item, h.item IS NULL AS locked, 0 AS waited
  FROM asked a
  LEFT JOIN held h ON h.list = a.list AND h.item = a.item
 WHERE h.item IS NOT NULL
    OR EXISTS (SELECT FROM iidy.lists l WHERE l.list = a.list AND l.item = a.item)`
)

// itemStatements are the statements of one change. Adds have none that skips locked rows:
// those of items that are being added are invisible.
type itemStatements struct{ one, group, free string }

func itemStatementsOf(change attempt.Change) itemStatements {
	switch change {
	case attempt.Increment:
		return itemStatements{incrementOneSQL, incrementGroupSQL, incrementFreeSQL}
	case attempt.Delete:
		return itemStatements{deleteOneSQL, deleteGroupSQL, deleteFreeSQL}
	case attempt.Add:
	}
	return itemStatements{addOneSQL, addGroupSQL, addGroupSQL}
}

// getGroupSQL returns the attempts of each item in the order of the arguments, -1 for
// an item that is not in its list.
const getGroupSQL = `
SELECT ARRAY(SELECT coalesce((SELECT l.attempts FROM iidy.lists l WHERE l.list = c.list AND l.item = c.item), -1)
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (list, item, n)
              ORDER BY c.n) AS attempts`
