// Mutant of services/pyggpot/internal/postgres/fence.go: the fence dropped.

package postgres

// fenceSQL does not check that a holder still has the leases.
const fenceSQL = `
    SELECT p.id, n.coins
      FROM unnest($1::integer[], $2::uuid[], $3::integer[]) AS n (id, number, coins)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE n.number IS NOT NULL AND (SELECT set_config('lock_timeout', $7, true)) IS NOT NULL
     ORDER BY p.id
       FOR UPDATE OF p`
