//go:build !bug_unfenced

package postgres

import (
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// txOptions keep a change that stalls from holding its pot for longer than its lease.
func (s *Store) txOptions() []sqldb.TxOption {
	if s.options.TTL >= sessionIdleTimeout {
		return nil // the session's own is enough, and saves a round trip
	}
	return []sqldb.TxOption{sqldb.WithIdleTimeout(s.options.TTL)}
}

// sessionIdleTimeout is what sqldb gives a session, see sqldb.Settings.
const sessionIdleTimeout = 10 * time.Second

const (
	// fenceSQL locks the pot if the lease is ours and lives, and reads its coins.
	// They are the last ones although the statement's snapshot is older than its
	// lock: whoever changed them held the pot's row to COMMIT, and this lease could
	// only be written after that.
	fenceSQL = `
SELECT ` + potColumns + ` FROM pyggpot.pot AS p ` + ofPot + `
 WHERE p.id = $1 AND p.lock = $2 AND p.lock_expire_time > clock_timestamp()
   FOR UPDATE OF p`

	// changeSQL writes the kinds that changed, the sum of all, and gives the lease back.
	changeSQL = `
WITH changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT $1, denomination, coin_count FROM unnest($3::integer[], $4::integer[]) AS n (denomination, coin_count) ORDER BY denomination
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
)
UPDATE pyggpot.pot SET coins = $5, lock = NULL, lock_expire_time = NULL WHERE id = $1 AND lock = $2`
)
