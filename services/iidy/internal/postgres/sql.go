package postgres

import "github.com/rowlock/rowlock/services/iidy/internal/attempt"

// The statements of a group of calls for single items. $1 and $2 are the lists and
// the items, $3 how often each was called for, $4 the lock_timeout, which they set
// themselves, in a sub-select that is evaluated before any row is touched: that saves
// the round trip of a SET LOCAL and works behind a transaction pooler. They return the
// ordinals of the items that they changed.
const (
	// waited is evaluated when all rows are locked: the seconds that it took, by the
	// server's clock, without commit and network.
	waited = `date_part('epoch', clock_timestamp() - statement_timestamp()) AS waited`

	askedSQL = `
WITH asked AS MATERIALIZED (
    SELECT c.list, c.item, c.times, c.n
      FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS c (list, item, times, n)
     WHERE (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
)`

	addGroupSQL = askedSQL + `, added AS (
    INSERT INTO iidy.lists (list, item)
    SELECT a.list, a.item
      FROM asked a
     ORDER BY a.list COLLATE "C", a.item COLLATE "C"
    ON CONFLICT (list, item) DO NOTHING
    RETURNING list, item
)
SELECT coalesce(array_agg(a.n), '{}') AS done, '{}'::bigint[] AS locked,
       ` + waited + `
  FROM added d
  JOIN asked a ON a.list = d.list AND a.item = d.item`

	heldGroupSQL = askedSQL + `, held AS MATERIALIZED (
    SELECT l.list, l.item, a.times, a.n
      FROM (SELECT list, item, times, n FROM asked ORDER BY list COLLATE "C", item COLLATE "C") AS a
     CROSS JOIN LATERAL (
           SELECT l.list, l.item
             FROM iidy.lists l
            WHERE l.list = a.list AND l.item = a.item
              FOR UPDATE`

	// The held rows exist, so the INSERT always conflicts: an UPDATE that looks each row up.
	incrementGroupSQL = `) AS l
), changed AS (
    INSERT INTO iidy.lists AS l (list, item, attempts)
    SELECT h.list, h.item, h.times
      FROM held h
    ON CONFLICT (list, item) DO UPDATE
       SET attempts = least(l.attempts, 9223372036854775807 - excluded.attempts) + excluded.attempts
)`

	// ANY makes the planner look each item up by the key. With = it would join them with
	// the whole key while the table is small, and keep that plan.
	deleteGroupSQL = `) AS l
), changed AS (
    DELETE FROM iidy.lists l
     USING held h
     WHERE l.list = ANY (ARRAY[h.list]) AND l.item = h.item
)`

	doneGroupSQL = `
SELECT coalesce(array_agg(h.n), '{}') AS done, '{}'::bigint[] AS locked,
       ` + waited + `
  FROM held h`

	// doneFreeSQL also returns which rows are locked by another transaction, so that they
	// are not taken for missing ones.
	doneFreeSQL = `
SELECT coalesce(array_agg(a.n) FILTER (WHERE h.n IS NOT NULL), '{}') AS done,
       coalesce(array_agg(a.n) FILTER (WHERE h.n IS NULL
           AND EXISTS (SELECT FROM iidy.lists l WHERE l.list = a.list AND l.item = a.item)), '{}') AS locked,
       ` + waited + `
  FROM asked a
  LEFT JOIN held h ON h.n = a.n`
)

// groupSQL returns the statement of a group of one change.
func groupSQL(change attempt.Change, skipLocked bool) string {
	changed := incrementGroupSQL
	switch change {
	case attempt.Add:
		return addGroupSQL
	case attempt.Delete:
		changed = deleteGroupSQL
	case attempt.Increment:
	}
	if skipLocked {
		return heldGroupSQL + ` SKIP LOCKED` + changed + doneFreeSQL
	}
	return heldGroupSQL + changed + doneGroupSQL
}

// getGroupSQL returns the attempts of each item in the order of the arguments, -1 for
// an item that is not in its list.
const getGroupSQL = `
SELECT array_agg(coalesce((SELECT l.attempts FROM iidy.lists l WHERE l.list = c.list AND l.item = c.item), -1)
                 ORDER BY c.n) AS attempts
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (list, item, n)`

// A page and the items of a claim are returned as one text, an entry a line, because a
// row of its own costs more than the entry.
//
// Their limits are nested, and hidden in sub-selects: the planner then expects a tenth
// of the rows below each, and walks the key instead of sorting the rows behind it. With
// a plain LIMIT of a thousand it would sort the whole list for each page of a list that
// has just been filled and is not analyzed yet, because it takes it for a short one.
const (
	existsSQL = `SELECT EXISTS (SELECT FROM (SELECT item FROM iidy.lists WHERE list = $1 ORDER BY item LIMIT 1) AS first)`

	// pageSQL returns no lines when they have more than $4 bytes.
	pageSQL = `
SELECT octet_length(t.lines) AS size, CASE WHEN octet_length(t.lines) <= $4 THEN t.lines ELSE '' END AS lines
  FROM (SELECT coalesce(string_agg(p.item || ' ' || p.attempts, E'\n' ORDER BY p.item), '') AS lines
          FROM (SELECT item, attempts
                  FROM (SELECT item, attempts
                          FROM (SELECT item, attempts
                                  FROM iidy.lists
                                 WHERE list = $1 AND item > $2
                                 ORDER BY item
                                 LIMIT (SELECT $3::bigint)) AS p
                         LIMIT (SELECT $3::bigint)) AS p
                 LIMIT (SELECT $3::bigint)) AS p) AS t`

	countSQL = `
SELECT count(*) AS items,
       count(*) FILTER (WHERE lease_until > clock_timestamp()) AS claimed,
       count(*) FILTER (WHERE attempts = 0) AS a0,
       count(*) FILTER (WHERE attempts = 1) AS a1,
       count(*) FILTER (WHERE attempts = 2) AS a2,
       count(*) FILTER (WHERE attempts = 3) AS a3,
       count(*) FILTER (WHERE attempts = 4) AS a4,
       count(*) FILTER (WHERE attempts >= 5) AS a5
  FROM iidy.lists
 WHERE list = $1`
)

// The statements of claims. $1 is the list; leases are in microseconds.
const (
	// claimSQL takes free items from $2 on, $3 at most, for $4, but none when their lines
	// could have more than $6 bytes, which size bounds. It also returns how many of them
	// were under a lease that has ended, and how many rows before the first it had to
	// pass, up to $5 + 1.
	claimSQL = `
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
    INSERT INTO iidy.lists AS l (list, item)
    SELECT $1, f.item
      FROM free f
     WHERE (SELECT size FROM need) <= $6
    ON CONFLICT (list, item) DO UPDATE
       SET claim = (SELECT claim FROM lease), lease_until = (SELECT until FROM lease)
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

	// heldClaimSQL looks the claim up by its index; IS TRUE keeps the planner from reading
	// the whole list.
	heldClaimSQL = `
WITH held AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE claim = $2::uuid AND (list = $1) IS TRUE AND lease_until > clock_timestamp()
     ORDER BY item
       FOR UPDATE
)`

	// The update checks the claim again, when it has waited for the locks of all its rows.
	stillClaimedSQL = `
 WHERE l.claim = $2::uuid AND l.lease_until > clock_timestamp()`

	extendSQL = heldClaimSQL + updateHeldSQL + `lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'` +
		stillClaimedSQL

	releaseSQL = heldClaimSQL + updateHeldSQL + `claim = NULL, lease_until = NULL` + stillClaimedSQL

	abandonSQL = `
WITH held AS MATERIALIZED (
    SELECT ctid AS place
      FROM iidy.lists
     WHERE list = $1 AND attempts >= $2
       AND ($3 = '' OR (claim = nullif($3, '')::uuid AND lease_until > clock_timestamp()) IS TRUE)
     ORDER BY item
       FOR UPDATE
), changed AS (
    DELETE FROM iidy.lists l
     WHERE l.ctid = ANY (ARRAY(SELECT place FROM held))
       AND ($3 = '' OR (l.claim = nullif($3, '')::uuid AND l.lease_until > clock_timestamp()) IS TRUE)` + goneSQL
)
