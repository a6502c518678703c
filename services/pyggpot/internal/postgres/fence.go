//go:build !bug_unfenced

package postgres

import (
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// txOptions returns the options that end a stalled change's transaction when its lease does.
func (s *Store) txOptions() []sqldb.TxOption {
	if s.options.TTL >= sessionIdleTimeout {
		return nil // the session's own suffices, and saves a round trip
	}
	return []sqldb.TxOption{sqldb.WithIdleTimeout(s.options.TTL)}
}

// sessionIdleTimeout is the bound that sqldb sets for a session, see sqldb.Settings.
const sessionIdleTimeout = 10 * time.Second

const (
	// fenceSQL locks the pot if it has this lease and the lease has not expired, and reads its coins. These are the last
	// ones although the statement's snapshot is older than its lock: the transaction that changed them held the pot's
	// row to COMMIT, and this lease was written after that.
	fenceSQL = `
SELECT ` + potColumns + ` FROM pyggpot.pot AS p ` + ofPot + `
 WHERE p.id = $1 AND p.lock = $2 AND p.lock_expire_time > clock_timestamp()
   FOR UPDATE OF p`

	// changeSQL writes the kinds that changed and the sum of all, and releases the lease.
	changeSQL = `
WITH changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT $1, denomination, coin_count FROM unnest($3::integer[], $4::integer[]) AS n (denomination, coin_count)
     ORDER BY denomination
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
)
UPDATE pyggpot.pot SET coins = $5, lock = NULL, lock_expire_time = NULL WHERE id = $1 AND lock = $2`
)
