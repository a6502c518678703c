//go:build bug_now

package postgres

// leaseClock is the bug "now() for clock_timestamp()" (rowlock bites): the time at
// which the transaction began, not the one at which it gets its row.
const leaseClock = `now()`
