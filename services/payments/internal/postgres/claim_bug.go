//go:build bug_donothing

package postgres

// expired is the mutant "DO NOTHING for expired keys" of the mutation test: a key that
// has expired cannot be claimed until it is cleaned up, and its old receipt is returned.
const expired = `false`
