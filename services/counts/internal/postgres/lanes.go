package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// keyMark begins the lane of a key. A count's lane is its id, which holds no control character.
const keyMark = "\x00"

// keyLane returns the lane of a key.
func keyLane(caller, key string) string {
	return keyMark + hex.EncodeToString([]byte(caller)) + keyMark + key
}

// await waits until no other transaction has the count of a lane locked, or is taking its key.
func (s *Store) await(ctx context.Context, wait time.Duration, lane string) error {
	const countSQL = `
SELECT 1
  FROM counts.count_values
 WHERE item_id = $1
   AND (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
   FOR UPDATE`
	// What it inserts where there is no key has expired already, which is no key either.
	const keySQL = `
INSERT INTO counts.idempotency_keys AS k (caller, key, fingerprint, group_id, position, expires_at)
SELECT $1, $2, '', gen_random_uuid(), 0, '-infinity'
 WHERE (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
ON CONFLICT (caller, key) DO UPDATE SET position = k.position
 WHERE false
RETURNING 1`
	limit := sqldb.Milliseconds(wait)
	query, args := countSQL, []any{lane, limit}
	if rest, isKey := strings.CutPrefix(lane, keyMark); isKey {
		encoded, key, _ := strings.Cut(rest, keyMark)
		caller, err := hex.DecodeString(encoded)
		if err != nil {
			return fmt.Errorf("the lane of a key: %w", err)
		}
		query, args = keySQL, []any{string(caller), key, limit}
	}
	begin := time.Now()
	var rows []int
	err := s.db.SelectUnqueued(ctx, &rows, query, args...)
	s.recordWait(time.Since(begin).Seconds(), wait, err)
	if sqldb.LockTimedOut(err) {
		return errors.Join(coalesce.ErrLockWait, err)
	}
	return err
}
