//go:build bug_donothing

package postgres

// claimSQL is the mutant "DO NOTHING for expired keys" of the mutation test: a key that
// has expired cannot be claimed until it is cleaned up, and its old receipt is returned.
const claimSQL = `
INSERT INTO payments.idempotency_records (key, status, request_fingerprint, fingerprint_version, expires_at)
VALUES ($1, 'PROCESSING', $2, $3, clock_timestamp() + $4 * interval '1 microsecond')
ON CONFLICT (key) DO NOTHING
RETURNING clock_timestamp()`
