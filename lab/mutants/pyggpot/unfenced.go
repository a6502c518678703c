// Mutant of services/pyggpot/internal/postgres/fence.go: the fence dropped.

package postgres

// fenceSQL checks neither that a holder still has the leases, nor that the pots are as it has read them.
const fenceSQL = `
    SELECT p.id, n.coins
      FROM unnest($4::integer[], $6::integer[], $7::xid[], $8::text[]) AS n (id, coins, version, before)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.id = ANY($4::integer[])
       AND $5::uuid IS NOT NULL
       AND n.version IS NOT NULL
       AND n.before IS NOT NULL
       AND EXISTS (SELECT FROM slot)
     ORDER BY p.id
       FOR UPDATE OF p`
