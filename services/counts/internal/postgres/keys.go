package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

const findKeysSQL = `
SELECT k.caller, k.key, k.fingerprint, k.answer
  FROM counts.idempotency_keys k
  JOIN unnest($1::text[], $2::text[]) AS a (caller, key) ON k.caller = a.caller AND k.key = a.key
 WHERE k.expires_at > clock_timestamp()`

// findKeys returns the keys of a group that are taken, with their caller or without one. The counts must be locked, so
// that the snapshot has the keys of every earlier change.
func findKeys(
	ctx context.Context, session groupcommit.Session, group []request,
) (map[counting.KeyID]counting.Taken, error) {
	var callers, keys pq.StringArray
	for _, q := range group {
		for _, id := range q.Key.Candidates() {
			callers, keys = append(callers, id.Caller), append(keys, id.Value)
		}
	}
	found := make(map[counting.KeyID]counting.Taken)
	if len(keys) == 0 {
		return found, nil
	}

	var rows []struct {
		Caller      string
		Key         string
		Fingerprint []byte
		Answer      []byte
	}
	if err := session.SelectContext(ctx, &rows, findKeysSQL, callers, keys); err != nil {
		return nil, err
	}

	for _, row := range rows {
		var t counting.Taken
		copy(t.Fingerprint[:], row.Fingerprint)
		if err := json.Unmarshal(row.Answer, &t.Answer); err != nil {
			return nil, fmt.Errorf("counts: the answer of a key: %w", err)
		}
		found[counting.KeyID{Caller: row.Caller, Value: row.Key}] = t
	}
	return found, nil
}

// takeKeysSQL takes keys in byte order. It takes over expired ones.
const takeKeysSQL = `
INSERT INTO counts.idempotency_keys AS k (caller, key, fingerprint, answer, expires_at)
SELECT a.caller, a.key, a.fingerprint, a.answer, statement_timestamp() + $5 * interval '1 microsecond'
  FROM unnest($1::text[], $2::text[], $3::bytea[], $4::json[]) AS a (caller, key, fingerprint, answer)
 WHERE (SELECT set_config('lock_timeout', $6, true)) IS NOT NULL
 ORDER BY a.caller COLLATE "C", a.key COLLATE "C"
    ON CONFLICT (caller, key) DO UPDATE
   SET fingerprint = excluded.fingerprint, answer = excluded.answer, expires_at = excluded.expires_at
 WHERE k.expires_at <= clock_timestamp()`

// takeKeys stores keys with their answers. It waits for a key that another session is taking, and returns ErrSplit if
// the other session keeps it.
func (s *Store) takeKeys(
	ctx context.Context, session groupcommit.Session, taken map[counting.KeyID]counting.Taken, wait time.Duration,
) error {
	if len(taken) == 0 {
		return nil
	}

	var callers, keys, answers pq.StringArray
	var fingerprints pq.ByteaArray
	for _, id := range slices.SortedFunc(maps.Keys(taken), compareKeys) {
		t := taken[id]
		answer, err := json.Marshal(t.Answer)
		if err != nil {
			return fmt.Errorf("counts: the answer of a key: %w", err)
		}
		callers, keys, answers = append(callers, id.Caller), append(keys, id.Value), append(answers, string(answer))
		fingerprints = append(fingerprints, t.Fingerprint[:])
	}
	return writeAll(ctx, session, len(keys), takeKeysSQL, callers, keys, fingerprints, answers,
		s.keyTTL.Microseconds(), sqldb.Milliseconds(wait))
}

func compareKeys(a, b counting.KeyID) int {
	return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Value, b.Value))
}

// deleteKeysSQL deletes expired keys, the oldest first. It never waits: it skips rows that another cleaner, or a
// request that takes over an expired key, has locked. It begins where the last batch of the same run ended, because the
// index keeps deleted rows until they are vacuumed.
const deleteKeysSQL = `
WITH expired AS MATERIALIZED (
    SELECT ctid AS place, expires_at
      FROM counts.idempotency_keys
     WHERE expires_at BETWEEN $1 AND statement_timestamp()
     ORDER BY expires_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM counts.idempotency_keys k USING expired e WHERE k.ctid = e.place RETURNING e.expires_at
)
SELECT count(*) AS n, coalesce(max(expires_at), $1)::text AS last FROM deleted`

// deleteBatch limits the rows of one statement, so that it holds their locks for milliseconds only.
const deleteBatch = 1000

// DeleteExpired deletes the expired keys in batches, each in its own transaction, and calls deleted with the size of
// each.
func (s *Store) DeleteExpired(ctx context.Context, deleted func(n int)) error {
	batch := struct {
		N    int
		Last string // expiry of the last one
	}{deleteBatch, "-infinity"}
	for batch.N == deleteBatch {
		// The pool may send it twice, as it does with reads: a repeat is harmless.
		if err := s.limits.DB.Repeatable().GetContext(ctx, &batch, deleteKeysSQL, batch.Last, deleteBatch); err != nil {
			return err
		}
		deleted(batch.N)
	}
	return nil
}
