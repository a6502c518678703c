// Mutant of services/payments/internal/postgres/claim.go: DO NOTHING for expired keys.

package postgres

// expired holds of no record: a key that has expired cannot be claimed until it is cleaned up, and its old receipt is
// returned.
const expired = `false`
