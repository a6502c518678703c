//go:build !bug_donothing

package postgres

// claimSQL claims a key that is absent or expired. It returns no row for a live key,
// whose row is then locked for the rest of the transaction, so that it can be read
// without a race. clock_timestamp(), because now() stands still while the statement
// waits for the row.
const claimSQL = `
INSERT INTO payments.idempotency_records AS r (key, status, request_fingerprint, fingerprint_version, expires_at)
VALUES ($1, 'PROCESSING', $2, $3, clock_timestamp() + $4 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE
   SET status = 'PROCESSING',
       request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       expires_at = clock_timestamp() + $4 * interval '1 microsecond', created_at = clock_timestamp()
 WHERE r.expires_at <= clock_timestamp()
RETURNING clock_timestamp()`
