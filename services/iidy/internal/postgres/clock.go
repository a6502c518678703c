//go:build !bug_now

package postgres

// leaseClock is the time by which a lease is over. now() would stand still while a
// statement waits for a row, and let a claim change what it no longer holds.
const leaseClock = `clock_timestamp()`
