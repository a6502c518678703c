//go:build bug_now

package postgres

// leaseClock injects the fault "now() for clock_timestamp()": leases are compared with the
// begin of the transaction, not with the time at which it gets its row.
const leaseClock = `now()`
