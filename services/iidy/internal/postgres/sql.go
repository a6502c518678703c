package postgres

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
