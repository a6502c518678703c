package postgres

// leaseClock is the time that leases are compared with. now() would not advance while a statement waits for a row, and
// a claim could change rows that it no longer holds.
const leaseClock = `clock_timestamp()`

// claimedSQL selects the items that a change may touch: all when it names no claim, $2, else those of the claim while
// its lease lasts. stillClaimedSQL does so again when all rows are locked: meanwhile the lease may have ended. On Citus
// what changes rows cannot read the clock itself, but the CTE that has.
const (
	claimedSQL = `($2 = '' OR (l.claim = nullif($2, '')::uuid AND l.lease_until > ` + leaseClock + `) IS TRUE)`

	clockSQL = `, clock AS MATERIALIZED (
    SELECT ` + leaseClock + ` AS t, count(*) AS n FROM held
)`

	stillClaimedSQL = `($2 = '' OR (l.claim = nullif($2, '')::uuid AND l.lease_until > k.t) IS TRUE)`
)
