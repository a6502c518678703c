package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// setKeyedSQL returns the statement that sets a count if its request wins its key. The count is locked before the key
// is taken, as in updatesSQL. A key that another session is taking is not waited for long: the count is locked then.
func setKeyedSQL(p places) string {
	return `
WITH held AS MATERIALIZED (
    SELECT v.item_id
      FROM counts.count_values v
     WHERE v.item_id = $2
       AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
       FOR UPDATE
), brief AS MATERIALIZED (
    SELECT h.n, set_config('lock_timeout', $9, true)
      FROM (SELECT count(*) AS n FROM held) h
), decided AS MATERIALIZED (
    SELECT 0 AS r, $6 AS caller, $7 AS key, $8::bytea AS fingerprint, NULL::int AS refused_at,
           CASE b.n WHEN 0 THEN 'not_found' END AS refusal
      FROM brief b
), ` + takeKeys("$3", "$10", p) + `, changed AS (
    UPDATE counts.count_values v
       SET current_value = $5, last_updated_at = clock_timestamp()
      FROM taken k
     WHERE v.item_id = $2
       AND k.refusal IS NULL
    RETURNING v.last_updated_at
), result AS MATERIALIZED (
    SELECT ARRAY(SELECT (extract(epoch FROM c.last_updated_at) * 1000000)::bigint FROM changed c) AS updated
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $3, r.updated, clock_timestamp() + $4 * interval '1 microsecond'
      FROM result r
     WHERE EXISTS (SELECT FROM taken)
)
SELECT r.updated
  FROM result r
 WHERE EXISTS (SELECT FROM taken)`
}

// maxKeyTries bounds how often a request is tried whose key expires while it is looked up.
const maxKeyTries = 3

// setKeyed sets a count for a request with a key, or returns the first answer to it.
func (s *Store) setKeyed(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (counting.CountValue, bool, error) {
	takeAndSet := s.takeAndSet
	if s.onCitus() {
		takeAndSet = s.takeAndSetOnShard
	}
	for range maxKeyTries {
		updated, won, err := takeAndSet(ctx, key, id, value)
		switch {
		case err != nil:
			return counting.CountValue{}, false, err
		case won:
			v, err := setTo(id, value, updated)
			return v, false, err
		}
		found, err := s.lookUp(ctx, []string{string(id)}, []counting.Key{key}, []int64{1})
		if err != nil {
			return counting.CountValue{}, false, err
		}
		switch first := found[0]; {
		case first == nil:
		case first.conflicts(key):
			return counting.CountValue{}, false, counting.ErrKeyConflict
		case first.refusal() != nil:
			return counting.CountValue{}, true, first.refusal()
		case first.complete(1):
			v, err := setTo(id, value, first.Starts)
			return v, true, err
		}
	}
	return counting.CountValue{}, false, coalesce.ErrLocked
}

// takeAndSet runs the statement of setKeyedSQL. It returns the time of the change in microseconds, none when the count
// is missing, and whether the key was won.
func (s *Store) takeAndSet(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (updated nullInts, won bool, err error) {
	query := s.keyedSQL(key.Caller != "").set
	err = s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(lockWait time.Duration) error {
		begin := time.Now()
		stored, err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn, journal uuid.UUID) error {
			return conn.GetContext(ctx, &updated, query, sqldb.Milliseconds(lockWait), string(id), journal,
				max(s.journalTTL, s.keyTTL+time.Minute).Microseconds(), value, key.Caller, key.Value, key.Fingerprint[:],
				sqldb.Milliseconds(min(lockWait, aloneWait)), s.keyTTL.Microseconds())
		})
		s.lock.Waited(contention.InDatabase, time.Since(begin))
		if stored != nil {
			updated = stored
		}
		if errors.Is(err, sql.ErrNoRows) || inOtherPlace(err) {
			return nil
		}
		won = err == nil
		return err
	}, sqldb.LockTimedOut)
	return updated, won, err
}

// setTo returns the count that was set at a time in microseconds, or ErrNotFound when there was none.
func setTo(id counting.ItemID, value int64, updated nullInts) (counting.CountValue, error) {
	if len(updated) == 0 {
		return counting.CountValue{}, counting.ErrNotFound
	}
	return counting.CountValue{ItemID: id, Current: value, UpdatedAt: time.UnixMicro(updated[0].value).UTC()}, nil
}
