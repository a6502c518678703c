package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// keyMark begins the lane of a key. A count's lane is its id, which holds no control character.
const keyMark = "\x00"

// keyLane returns the lane of a key. On Citus a key is one count's, so that its lane is.
func (s *Store) keyLane(k counting.Key, item string) string {
	lane := keyMark + hex.EncodeToString([]byte(k.Caller)) + keyMark + k.Value
	if s.onCitus() {
		lane += keyMark + item
	}
	return lane
}

// await is a coalesce.Config.Await: it returns the lanes whose count no other transaction has locked, and whose key no
// other transaction is taking. It leaves nothing behind that must last, so it does not wait for the disk.
func (s *Store) await(ctx context.Context, pass coalesce.Pass, lanes []string) ([]string, error) {
	const countsSQL = `
SELECT v.item_id
  FROM counts.count_values v
 WHERE v.item_id = ANY ($1)
   AND (SELECT set_config('lock_timeout', $2, true) || set_config('synchronous_commit', 'off', true)) IS NOT NULL
   FOR UPDATE`
	var free, ids []string
	for _, lane := range lanes {
		switch isFree, err := s.awaitKey(ctx, pass, lane); {
		case err != nil:
			return nil, err
		case isFree:
			free = append(free, lane)
		case !strings.HasPrefix(lane, keyMark):
			ids = append(ids, lane)
		}
	}
	if len(ids) == 0 {
		return free, nil
	}
	query := countsSQL
	if pass.SkipLocked {
		query += " SKIP LOCKED"
	}
	begin := time.Now()
	var found []string
	err := s.db.SelectUnqueued(ctx, &found, query, pq.StringArray(ids), sqldb.Milliseconds(pass.Wait))
	if !pass.SkipLocked {
		s.recordWait(time.Since(begin).Seconds(), pass.Wait, err)
	}
	switch {
	case sqldb.LockTimedOut(err):
		return nil, errors.Join(coalesce.ErrLockWait, err)
	case err == nil && !pass.SkipLocked:
		return lanes, nil // it is free, or missing
	}
	return append(free, found...), err
}

// awaitKey reports whether a lane is that of a key that no other transaction is taking.
func (s *Store) awaitKey(ctx context.Context, pass coalesce.Pass, lane string) (bool, error) {
	// What it inserts where there is no key has expired already, which is no key either.
	const keySQL = `
INSERT INTO counts.idempotency_keys AS k (caller, key, fingerprint, group_id, position, expires_at)
SELECT $1, $2, '', gen_random_uuid(), 0, '-infinity'
 WHERE (SELECT set_config('lock_timeout', $3, true) || set_config('synchronous_commit', 'off', true)) IS NOT NULL
ON CONFLICT (caller, key) DO UPDATE SET position = k.position
 WHERE false
RETURNING 1`
	rest, isKey := strings.CutPrefix(lane, keyMark)
	if !isKey {
		return false, nil
	}
	encoded, key, _ := strings.Cut(rest, keyMark)
	caller, err := hex.DecodeString(encoded)
	if err != nil {
		return false, fmt.Errorf("the lane of a key: %w", err)
	}
	for _, place := range slices.Compact([]string{"", string(caller)}) { // whichever of the two places it is
		var rows []int
		err := s.db.SelectUnqueued(ctx, &rows, keySQL, place, key, sqldb.Milliseconds(max(pass.Wait, glance)))
		switch {
		case err == nil:
		case !sqldb.LockTimedOut(err):
			return false, err
		case pass.SkipLocked:
			return false, nil
		default:
			return false, errors.Join(coalesce.ErrLockWait, err)
		}
	}
	return true, nil
}

// glance is the wait for a key in a pass that skips what is locked.
const glance = 5 * time.Millisecond
