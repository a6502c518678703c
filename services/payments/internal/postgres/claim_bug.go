//go:build bug_donothing

package postgres

// claimSQL is the mutant "DO NOTHING for expired keys" of the mutation test: a key that
// has expired cannot be claimed until it is cleaned up, and its old receipt is returned.
const claimSQL = `
INSERT INTO payments.idempotency_records AS r (` + claimColumns + `)
` + claimRows + `
ON CONFLICT (key) DO NOTHING
RETURNING r.key, clock_timestamp() AS now`
