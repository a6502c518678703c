package postgres

// fenceSQL locks the pots whose lease is still valid, in the order of their ids: no other holder can take a lease that
// expires from now on until the change is committed or rolled back. A pot must also have the coins that were read with
// its lease: the snapshot of that statement may be older than the lease, and another holder have changed the pot in
// between.
const fenceSQL = `
    SELECT p.id, n.coins
      FROM unnest($4::integer[], $6::integer[], $7::text[]) AS n (id, coins, before)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.id = ANY($4::integer[])
       AND p.lock = $5::uuid
       AND p.lock_expire_time > clock_timestamp()
       AND ` + contentsSQL + ` = n.before
       AND EXISTS (SELECT FROM slot)
     ORDER BY p.id
       FOR UPDATE OF p`
