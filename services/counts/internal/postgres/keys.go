package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
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
