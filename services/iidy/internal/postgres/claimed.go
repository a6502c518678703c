package postgres

import "strings"

// leaseClock is the time that leases are compared with. now() would not advance while a
// statement waits for a row, and a claim could change rows that it no longer holds.
const leaseClock = `clock_timestamp()`

// claimedSQL and claimedOnShardSQL select the items that a change may touch: all of them when it names no claim, else
// those of the claim while its lease lasts.
const (
	claimedSQL = `(CLAIM = '' OR (l.claim = nullif(CLAIM, '')::uuid AND l.lease_until > ` + leaseClock + `) IS TRUE)`

	claimedOnShardSQL = `($3 = '' OR (l.claim = nullif($3, '')::uuid AND l.lease_until > TIME) IS TRUE)`
)

// atTimes compares leases with the clock, atClock with the CTE that has read it.
func atTimes(s string) string { return strings.ReplaceAll(s, "TIME", leaseClock) }
func atClock(s string) string { return strings.ReplaceAll(s, "TIME", "k.t") }
