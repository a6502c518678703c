package postgres

import "github.com/rowlock/rowlock/platform/coalesce"

// updatesSQL applies a group that has keys, batches or counts to create. It locks the counts in the order of their ids,
// then takes the keys in their order, then creates counts in the order of their ids: two groups never wait for each
// other. Its first parameters are its lock_timeout, the journal's id, and how long keys and the journal's row live. The
// others are arrays:
//
//	counts  (item_id, lowest, highest): every count once, with the values between which all parts fit together
//	steps   (r, i, delta, at, creates): what a part adds to count i. A part is known by r, the place of its first step;
//	        those with a key come first, and they alone have at, the index of the step's first change
//	changes (i, delta): of the only part, when it is alone, so that a change that leaves the range is found
//	keys    (r, caller, key, fingerprint)
//
// A part is applied as a whole or not at all: when it fits, and has won its key if it has one. A key is taken when the
// part is applied and when it is refused for good. Values are those after the wait for the locks, because they are read
// from the locked rows alone.
//
// The row of the journal, and the first column, have the value before each step that has a key, NULL when it is not
// applied, and then the value of each count before the statement, NULL when it does not exist or is not locked here.
func updatesSQL(lock, seen string, p places) string {
	return decideSQL(lock, seen) + ", " + takeKeys("$2", "$3", p) + ", " + applySQL + ", " + storeSQL
}

// passSQL is a statement for each kind of pass.
type passSQL struct{ wait, free string }

// newPassSQL returns the statement for the pass that waits for locked counts, and for the one that leaves out what
// names a count that another transaction has locked: there a count that exists and is not locked here is not taken for
// a missing one.
func newPassSQL(statement func(lock, seen string, p places) string, p places) passSQL {
	return passSQL{
		wait: statement("", "false", p),
		free: statement("SKIP LOCKED", "NOT EXISTS (SELECT FROM held h WHERE h.i = c.i)", p),
	}
}

func (s passSQL) of(pass coalesce.Pass) string {
	if pass.SkipLocked {
		return s.free
	}
	return s.wait
}

// findSQL begins the statement: it locks the counts and finds out what they hold.
func findSQL(lock, seen string) string {
	return `
WITH asked AS MATERIALIZED (
    SELECT c.i, c.item_id, c.lowest, c.highest
      FROM unnest($5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS c (item_id, lowest, highest, i)
     WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
), held AS MATERIALIZED (
    SELECT c.i, v.current_value
      FROM asked c
      JOIN counts.count_values v ON v.item_id = c.item_id
       ` + lockOrder + `
       FOR UPDATE OF v ` + lock + `
), seen AS (
    SELECT c.i
      FROM asked c
      JOIN counts.count_values v ON v.item_id = c.item_id
     WHERE ` + seen + `
), found AS MATERIALIZED (
    SELECT c.i, c.item_id, h.current_value, h.i IS NULL AND s.i IS NOT NULL AS locked,
           coalesce(h.current_value, 0) BETWEEN c.lowest AND c.highest AS fits, clock_timestamp() AS since
      FROM asked c
      LEFT JOIN held h ON h.i = c.i
      LEFT JOIN seen s ON s.i = c.i
)`
}

// decideSQL decides which parts fit, and which keys to take.
func decideSQL(lock, seen string) string {
	return findSQL(lock, seen) + `, steps AS MATERIALIZED (
    SELECT p.n, p.r, p.i, p.delta, p.at, coalesce(f.current_value, 0) AS current_value, f.locked,
           f.current_value IS NULL AND NOT f.locked AND p.creates IS NOT TRUE AS missing,
           f.fits AND NOT f.locked AND (f.current_value IS NOT NULL OR p.creates) AS fits
      FROM unnest($8::int[], $9::int[], $10::bigint[], $11::int[], $12::bool[])
           WITH ORDINALITY AS p (r, i, delta, at, creates, n)
      JOIN found f ON f.i = p.i
), over AS MATERIALIZED (
    SELECT min(o.n) - 1 AS at
      FROM (SELECT c.n, coalesce(f.current_value, 0) + sum(c.delta) OVER (PARTITION BY c.i ORDER BY c.n) AS value
              FROM unnest($13::int[], $14::bigint[]) WITH ORDINALITY AS c (i, delta, n)
              JOIN found f ON f.i = c.i) o
     WHERE o.value NOT BETWEEN -9223372036854775808 AND 9223372036854775807
), unfit AS MATERIALIZED (
    SELECT p.r, bool_or(p.locked) AS locked, min(p.at) FILTER (WHERE p.missing) AS missing
      FROM steps p
     WHERE p.fits IS NOT TRUE OR (SELECT o.at FROM over o) IS NOT NULL
     GROUP BY p.r
), decided AS MATERIALIZED (
    SELECT k.r, k.caller, k.key, k.fingerprint, coalesce(u.missing, o.at) AS refused_at,
           CASE WHEN u.r IS NULL THEN NULL WHEN u.missing IS NULL THEN 'overflow' ELSE 'not_found' END AS refusal
      FROM unnest($15::int[], $16::text[], $17::text[], $18::bytea[]) AS k (r, caller, key, fingerprint)
      LEFT JOIN unfit u ON u.r = k.r
     CROSS JOIN over o
     WHERE u.r IS NULL OR NOT u.locked AND (u.missing IS NOT NULL OR o.at IS NOT NULL)
)`
}

// applySQL applies the parts that fit and have no key, or have won theirs. New values come from the locked rows: a sum
// in the UPDATE would first be computed with the value from before the wait, and may leave int64 with that.
const applySQL = `applied AS MATERIALIZED (
    SELECT p.n, p.i, p.delta, p.current_value
      FROM steps p
     WHERE (p.n > cardinality($11) OR p.r IN (SELECT k.position FROM taken k WHERE k.refusal IS NULL))
       AND p.r NOT IN (SELECT u.r FROM unfit u)
), totals AS MATERIALIZED (
    SELECT f.item_id, f.current_value IS NOT NULL AS existed,
           (coalesce(f.current_value, 0) + t.total)::bigint AS value
      FROM (SELECT a.i, sum(a.delta) AS total FROM applied a GROUP BY a.i) t
      JOIN found f ON f.i = t.i
), changed AS (
    UPDATE counts.count_values v
       SET current_value = t.value, last_updated_at = clock_timestamp()
      FROM totals t
     WHERE v.item_id = t.item_id
       AND t.existed
), created AS (
    INSERT INTO counts.count_values (item_id, current_value)
    SELECT t.item_id, t.value
      FROM totals t
     WHERE NOT t.existed
     ORDER BY t.item_id
), result AS MATERIALIZED (
    SELECT ARRAY(SELECT s.start
                   FROM unnest($11::int[]) WITH ORDINALITY AS g (at, n)
                   LEFT JOIN (SELECT a.n, (a.current_value + coalesce(sum(a.delta) OVER (PARTITION BY a.i ORDER BY a.n
                                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))::bigint AS start
                                FROM applied a
                               WHERE a.n <= cardinality($11)) s ON s.n = g.n
                  ORDER BY g.n)
        || ARRAY(SELECT f.current_value FROM found f ORDER BY f.i) AS stored
)`

// storeSQL ends the statement: it writes the journal's row and returns what that has.
const storeSQL = `journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $2, r.stored, statement_timestamp() + $4 * interval '1 microsecond'
      FROM result r
     WHERE EXISTS (SELECT FROM totals) OR EXISTS (SELECT FROM taken)
)
SELECT r.stored, ARRAY(SELECT f.i FROM found f WHERE f.locked) AS locked,
       ARRAY(SELECT k.position FROM taken k) AS taken,
       (SELECT date_part('epoch', max(f.since) - statement_timestamp()) FROM found f) AS waited
  FROM result r`
