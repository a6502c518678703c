package postgres

const (
	// fenceSQL locks the pots that have these leases, if they have not expired, in the order of their ids.
	fenceSQL = `
    SELECT p.id, n.coins
      FROM unnest($1::integer[], $2::uuid[], $3::integer[]) AS n (id, number, coins)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.id = ANY($1::integer[]) AND p.lock = n.number AND p.lock_expire_time > clock_timestamp()
       AND (SELECT set_config('lock_timeout', $7, true)) IS NOT NULL
     ORDER BY p.id
       FOR UPDATE OF p`

	writeSQL     = `WITH fenced AS MATERIALIZED (` + fenceSQL + `)` + changeSQL
	writeFreeSQL = `WITH fenced AS MATERIALIZED (` + fenceSQL + ` SKIP LOCKED)` + changeSQL

	// changeSQL writes the kinds that changed and the sum of all, and releases the leases.
	changeSQL = `, changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT n.pot_id, n.denomination, n.coin_count
      FROM unnest($4::integer[], $5::integer[], $6::integer[]) AS n (pot_id, denomination, coin_count)
      JOIN fenced AS f ON f.id = n.pot_id
     ORDER BY n.pot_id, n.denomination
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
), written AS (
    UPDATE pyggpot.pot AS p
       SET coins = f.coins, lock = NULL, lock_expire_time = NULL
      FROM fenced AS f
     WHERE p.id = f.id
    RETURNING p.id
)
SELECT coalesce(array_agg(id), '{}') AS ids FROM written`
)
