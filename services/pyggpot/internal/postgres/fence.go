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
)
