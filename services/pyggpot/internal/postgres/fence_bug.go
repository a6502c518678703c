//go:build bug_unfenced

package postgres

import "github.com/rowlock/rowlock/platform/sqldb"

// txOptions, fenceSQL and changeSQL are the mutant "the fence dropped" (rowlock mutation-test): a holder does not check
// that it still has the lease, no lock holds the row, and no timeout ends the transaction of a holder that stalls.
func (*Store) txOptions() []sqldb.TxOption { return nil }

const (
	fenceSQL = `
SELECT ` + potColumns + ` FROM pyggpot.pot AS p ` + ofPot + `
 WHERE p.id = $1 AND $2::uuid IS NOT NULL`

	changeSQL = `
WITH changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT $1, denomination, coin_count FROM unnest($3::integer[], $4::integer[]) AS n (denomination, coin_count)
     ORDER BY denomination
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
)
UPDATE pyggpot.pot SET coins = $5, lock = NULL, lock_expire_time = NULL WHERE id = $1 AND $2::uuid IS NOT NULL`
)
