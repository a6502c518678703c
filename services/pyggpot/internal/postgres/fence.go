package postgres

// fenceSQL locks the pots whose lease is still valid, in the order of their ids: no other holder can take a lease that
// expires from now on until the change is committed or rolled back.
//
// A pot's row must be the version that the lease has written (xmin): no other group has leased or changed it since. The
// coins alone do not tell: after a wait for a row PostgreSQL evaluates the conditions on its newest version, but reads
// the coins under the snapshot from before the wait. With the version that snapshot has the pot's coins, and they must
// be those that were read with the lease: the snapshot of that statement may be older than the lease.
const fenceSQL = `
    SELECT p.id, n.coins
      FROM unnest($4::integer[], $6::integer[], $7::xid[], $8::text[]) AS n (id, coins, version, before)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.id = ANY($4::integer[])
       AND p.lock = $5::uuid
       AND p.lock_expire_time > clock_timestamp()
       AND p.xmin = n.version
       AND ` + contentsSQL + ` = n.before
       AND EXISTS (SELECT FROM slot)
     ORDER BY p.id
       FOR UPDATE OF p`
