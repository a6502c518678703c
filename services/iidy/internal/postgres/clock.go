package postgres

// leaseClock is the time that leases are compared with. now() would not advance while a
// statement waits for a row, and a claim could change rows that it no longer holds.
const leaseClock = `clock_timestamp()`
