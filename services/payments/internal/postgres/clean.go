package postgres

import (
	"context"
	"time"
)

// deleteExpiredSQL skips rows that other transactions (cleaners or claimers) have locked, so it never waits. A
// sub-select reads the time, which makes it a constant of the statement that can use the index.
const deleteExpiredSQL = `
WITH expired AS MATERIALIZED (
    SELECT caller, key
      FROM payments.idempotency_records
     WHERE expires_at <= (SELECT clock_timestamp()) AND status = 'COMPLETED'
     ORDER BY expires_at
     LIMIT $1
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM payments.idempotency_records r USING expired e WHERE r.caller = e.caller AND r.key = e.key RETURNING 1
)
SELECT count(*) FROM gone`

// DeleteExpired implements payment.Repository.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (deleted int, err error) {
	return s.deleteBatch(ctx, deleteExpiredSQL, limit)
}

// deleteSettledSQL deletes entries of the processor's ledger whose payment is stored, if both are older than $2
// microseconds. The payment's age counts too: a request that stalled while another one stored its payment may still ask
// for the entry, and without it would charge again. Locks and time are handled as in deleteExpiredSQL. It scans past
// the unsettled entries, which stay and are few.
const deleteSettledSQL = `
WITH settled AS MATERIALIZED (
    SELECT c.processor_key
      FROM payments.processor_charges c
     WHERE c.created_at <= (SELECT clock_timestamp()) - $2 * interval '1 microsecond'
       AND EXISTS (SELECT FROM payments.payments p
                    WHERE p.processor_key = c.processor_key
                      AND p.created_at <= (SELECT clock_timestamp()) - $2 * interval '1 microsecond')
     ORDER BY c.created_at
     LIMIT $1
       FOR UPDATE OF c SKIP LOCKED
), gone AS (
    DELETE FROM payments.processor_charges c USING settled s WHERE c.processor_key = s.processor_key RETURNING 1
)
SELECT count(*) FROM gone`

// DeleteSettled removes up to limit entries of the processor's ledger, charges and declines, and returns their number.
// The entry and its payment must be older than age. It skips entries that another transaction has locked.
func (s *Store) DeleteSettled(ctx context.Context, age time.Duration, limit int) (deleted int, err error) {
	return s.deleteBatch(ctx, deleteSettledSQL, limit, age.Microseconds())
}

// deleteBatch runs a statement that returns the number of deleted rows, and repeats it if its answer was lost.
func (s *Store) deleteBatch(ctx context.Context, statement string, args ...any) (deleted int, err error) {
	err = s.options.DB.Repeatable().GetContext(ctx, &deleted, statement, args...)
	return deleted, err
}
