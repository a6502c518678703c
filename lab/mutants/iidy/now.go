// Mutant of services/iidy/internal/postgres/clock.go: now() for clock_timestamp().

package postgres

// leaseClock is the begin of the transaction, not the time at which it gets its row.
const leaseClock = `now()`
