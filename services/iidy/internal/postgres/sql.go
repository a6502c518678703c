package postgres

import "github.com/rowlock/rowlock/services/iidy/internal/attempt"

// Items travel as one text, parted by line breaks, which no item holds: the server
// splits that in half the time that it takes to read an array.
//
// Rows are locked in the order of their bytes by an ORDER BY below the INSERT, below
// FOR UPDATE, or below the LATERAL that FOR UPDATE stands in. Sorted parameters
// alone would not do: the planner picks the order in which a plain UPDATE or DELETE
// locks, and two of them deadlock.
//
// LATERAL and ANY (ARRAY ...) also leave the planner no choice but to look each item
// up in the key. It cannot know how many items there are, and where it guesses too
// many it reads the whole table for a thousand of them, twenty times as long.

// oneMore is attempts and one; the largest bigint stays what it is.
const oneMore = `least(l.attempts, 9223372036854775806) + 1`

// The changes of a batch: $1 is the list, $2 the items. Those that may be limited
// to a claim have it as $3, ” for none. What a claim holds is looked at after the
// wait for the row's lock.
const (
	addManySQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, i
  FROM string_to_table($2, E'\n') AS i
 ORDER BY i COLLATE "C"
ON CONFLICT (list, item) DO NOTHING`

	heldManySQL = `
WITH held AS MATERIALIZED (
    SELECT l.item
      FROM (SELECT i AS item FROM string_to_table($2, E'\n') AS i ORDER BY i COLLATE "C") AS a
     CROSS JOIN LATERAL (
           SELECT l.item
             FROM iidy.lists l
            WHERE l.list = $1 AND l.item = a.item
              AND ($3 = '' OR l.claim = nullif($3, '')::uuid AND l.lease_until > clock_timestamp())
              FOR UPDATE) AS l
)`

	incrementHeldSQL = `
UPDATE iidy.lists l
   SET attempts = ` + oneMore + ofHeldSQL

	deleteHeldSQL = `
DELETE FROM iidy.lists l` + ofHeldSQL

	ofHeldSQL = `
 WHERE l.list = $1 AND l.item = ANY (ARRAY(SELECT item FROM held))`
)

// manySQL is the statement of a batch.
func manySQL(change attempt.Change) string {
	switch change {
	case attempt.Increment:
		return heldManySQL + incrementHeldSQL
	case attempt.Delete:
		return heldManySQL + deleteHeldSQL
	case attempt.Add:
	}
	return addManySQL
}

// The staging of a batch of any length. Behind a transaction pooler a session's
// temporary tables would be anybody's; this one goes with its transaction.
const (
	createStagedSQL = `CREATE TEMPORARY TABLE staged (item text COLLATE "C" NOT NULL) ON COMMIT DROP`
	fillStagedSQL   = `INSERT INTO pg_temp.staged (item) SELECT i FROM string_to_table($1, E'\n') AS i`
	// Without it the planner takes the table for a small one, and looks each item up by itself.
	analyzeStagedSQL = `ANALYZE pg_temp.staged`

	addStagedSQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, s.item
  FROM pg_temp.staged s
 ORDER BY s.item
ON CONFLICT (list, item) DO NOTHING`

	heldStagedSQL = `
WITH held AS MATERIALIZED (
    SELECT l.item
      FROM pg_temp.staged s
      JOIN iidy.lists l ON l.list = $1 AND l.item = s.item
     WHERE $2 = '' OR l.claim = nullif($2, '')::uuid AND l.lease_until > clock_timestamp()
     ORDER BY l.item
       FOR UPDATE OF l
)`

	incrementStagedSQL = heldStagedSQL + `
UPDATE iidy.lists l
   SET attempts = ` + oneMore + `
  FROM held h
 WHERE l.list = $1 AND l.item = h.item`

	deleteStagedSQL = heldStagedSQL + deleteAllSQL

	deleteAllSQL = `
DELETE FROM iidy.lists l
 USING held h
 WHERE l.list = $1 AND l.item = h.item`
)

// stagedSQL is the one statement that applies what was staged.
func stagedSQL(change attempt.Change) string {
	switch change {
	case attempt.Increment:
		return incrementStagedSQL
	case attempt.Delete:
		return deleteStagedSQL
	case attempt.Add:
	}
	return addStagedSQL
}

// The statements of a group of calls for single items: $1 and $2 are the lists and
// the items, $3 how often each, $4 the lock_timeout. They set it for themselves,
// in a sub-select that the planner evaluates before it touches a row: that saves
// the round trip of a SET LOCAL and works behind a transaction pooler. Each
// answers with the ordinals of what it did.
const (
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
SELECT coalesce(array_agg(a.n), '{}') AS done, '{}'::bigint[] AS locked
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

	// What is held is there, so the INSERT always meets it: an UPDATE that looks each row up.
	incrementGroupSQL = `) AS l
), changed AS (
    INSERT INTO iidy.lists AS l (list, item, attempts)
    SELECT h.list, h.item, h.times
      FROM held h
    ON CONFLICT (list, item) DO UPDATE
       SET attempts = least(l.attempts, 9223372036854775807 - excluded.attempts) + excluded.attempts
)`

	deleteGroupSQL = `) AS l
), changed AS (
    DELETE FROM iidy.lists l
     USING held h
     WHERE l.list = h.list AND l.item = h.item
)`

	doneGroupSQL = `
SELECT coalesce(array_agg(h.n), '{}') AS done, '{}'::bigint[] AS locked
  FROM held h`

	// doneFreeSQL also tells which rows somebody else has locked, lest they be
	// taken for missing ones.
	doneFreeSQL = `
SELECT coalesce(array_agg(a.n) FILTER (WHERE h.n IS NOT NULL), '{}') AS done,
       coalesce(array_agg(a.n) FILTER (WHERE h.n IS NULL
           AND EXISTS (SELECT FROM iidy.lists l WHERE l.list = a.list AND l.item = a.item)), '{}') AS locked
  FROM asked a
  LEFT JOIN held h ON h.n = a.n`
)

// groupSQL is the statement of a group of changes.
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

// getGroupSQL answers with the attempts of each item in the order asked, -1 for
// one that is not there.
const getGroupSQL = `
SELECT array_agg(coalesce((SELECT l.attempts FROM iidy.lists l WHERE l.list = c.list AND l.item = c.item), -1) ORDER BY c.n) AS attempts
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (list, item, n)`

// A page and what a claim took come as one text, an entry a line, because a row
// costs more to send than an entry is worth.
//
// Their limits are nested, and hidden in sub-selects: the planner expects a tenth of
// the rows below each, and so walks the key instead of sorting what is behind it.
// With a plain LIMIT of a thousand it sorts the whole list for each page of one that
// was just filled and is not analyzed yet, because it takes that for a short one.
const (
	existsSQL = `SELECT EXISTS (SELECT FROM iidy.lists WHERE list = $1)`

	pageSQL = `
SELECT coalesce(string_agg(p.item || ' ' || p.attempts, E'\n' ORDER BY p.item), '')
  FROM (SELECT item, attempts
          FROM (SELECT item, attempts
                  FROM (SELECT item, attempts
                          FROM iidy.lists
                         WHERE list = $1 AND item > $2
                         ORDER BY item
                         LIMIT (SELECT $3::bigint)) AS p
                 LIMIT (SELECT $3::bigint)) AS p
         LIMIT (SELECT $3::bigint)) AS p`

	progressSQL = `
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

// The claims. $1 is the list; leases are given in microseconds.
const (
	// claimSQL takes free items from $2 on, $3 at most, for $4. It also tells how
	// many it took over from a claim whose lease is over, and how many rows before
	// the first it had to pass, up to $5 + 1.
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
), lease AS MATERIALIZED (
    SELECT gen_random_uuid() AS claim, clock_timestamp() + $4::bigint * interval '1 microsecond' AS until
), taken AS (
    UPDATE iidy.lists l
       SET claim = (SELECT claim FROM lease), lease_until = (SELECT until FROM lease)
     WHERE l.list = $1 AND l.item = ANY (ARRAY(SELECT item FROM free))
    RETURNING l.item, l.attempts
)
SELECT (SELECT claim FROM lease)::text AS claim, (SELECT until FROM lease) AS until,
       coalesce(string_agg(t.item || ' ' || t.attempts, E'\n' ORDER BY t.item), '') AS entries,
       (SELECT count(*) FROM free WHERE expired) AS expired,
       (SELECT count(*) FROM (SELECT FROM iidy.lists
                               WHERE list = $1 AND item >= $2 AND item < (SELECT min(item) FROM free)
                               LIMIT $5::bigint + 1) AS passed) AS passed
  FROM taken t`

	heldClaimSQL = `
WITH held AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE list = $1 AND claim = $2::uuid AND lease_until > clock_timestamp()
     ORDER BY item
       FOR UPDATE
)`

	extendSQL = heldClaimSQL + `
UPDATE iidy.lists l
   SET lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'` + ofHeldSQL

	releaseSQL = heldClaimSQL + `
UPDATE iidy.lists l
   SET claim = NULL, lease_until = NULL` + ofHeldSQL

	abandonSQL = `
WITH held AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE list = $1 AND attempts >= $2
       AND ($3 = '' OR claim = nullif($3, '')::uuid AND lease_until > clock_timestamp())
     ORDER BY item
       FOR UPDATE
)` + deleteAllSQL
)
