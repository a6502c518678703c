package postgres

import "context"

// The tables whose rows expire.
const (
	Journal = "journal"
	Keys    = "keys"
)

// The statements delete what has expired, the oldest first. They skip rows that another session has locked, a cleaner
// or a request that takes an expired key, and so never wait. They begin where the last batch of the same run has ended:
// the index keeps the rows that were deleted until they are vacuumed.
const (
	deleteJournalSQL = `
WITH expired AS MATERIALIZED (
    SELECT ctid AS place, expires_at
      FROM counts.journal
     WHERE expires_at BETWEEN $1 AND statement_timestamp()
     ORDER BY expires_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM counts.journal j USING expired e WHERE j.ctid = e.place RETURNING e.expires_at
)
SELECT count(*) AS n, coalesce(max(expires_at), $1)::text AS last FROM deleted`

	deleteKeysSQL = `
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
)

// deleteBatch is how many rows a statement deletes: it holds their locks for milliseconds.
const deleteBatch = 1000

// DeleteExpired deletes the rows of Journal or Keys that have expired, in batches that commit by themselves, and calls
// deleted with the size of each.
func (s *Store) DeleteExpired(ctx context.Context, table string, deleted func(n int)) error {
	if s.onCitus() {
		return s.deleteOnShards(ctx, table, deleted)
	}
	statement := deleteJournalSQL
	if table == Keys {
		statement = deleteKeysSQL
	}
	batch := struct {
		N    int
		Last string // when the last one of them expired
	}{deleteBatch, "-infinity"}
	for batch.N == deleteBatch {
		// A read as far as the pool is concerned: it may be sent twice.
		if err := s.db.GetUnqueued(ctx, &batch, statement, batch.Last, deleteBatch); err != nil {
			return err
		}
		deleted(batch.N)
	}
	return nil
}
