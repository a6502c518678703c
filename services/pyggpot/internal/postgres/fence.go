package postgres

// fenceSQL locks the pots whose lease is still valid, in the order of their ids, and reads them with their coins. It
// sets lock_timeout, and how long the transaction may stand still with these locks, before it locks the first row.
//
// The coins are of the statement's snapshot, which may be older than the locks and is current all the same: it is newer
// than the lease, and who has changed the pot before has released it in the same commit.
const fenceSQL = `
WITH fenced AS MATERIALIZED (
    SELECT id, pot_name, max_coins, create_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND lock = $2::uuid
       AND lock_expire_time > clock_timestamp()
       AND (SELECT set_config('lock_timeout', $3, true)
                || set_config('idle_in_transaction_session_timeout', $4, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE
)
SELECT ` + potColumns + `, extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS waited
  FROM fenced AS p ` + ofPot
