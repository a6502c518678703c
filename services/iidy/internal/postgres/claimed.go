package postgres

// leaseClock is the time that leases are compared with. now() does not advance while a statement waits for a row, so a
// claim could change rows that it no longer holds.
const leaseClock = `clock_timestamp()`

// claimedSQL selects the items that a change may touch: all if it names no claim, $2, otherwise those that the claim
// holds while its lease lasts. stillClaimedSQL checks that again once all rows are locked: the lease may have ended
// meanwhile. On Citus an UPDATE or DELETE cannot read the clock, so a CTE reads it.
const (
	claimedSQL = `($2 = '' OR (l.claim = nullif($2, '')::uuid AND l.lease_until > ` + leaseClock + `) IS TRUE)`

	clockSQL = `, clock AS MATERIALIZED (
    SELECT ` + leaseClock + ` AS t, count(*) AS n FROM held
)`

	stillClaimedSQL = `($2 = '' OR (l.claim = nullif($2, '')::uuid AND l.lease_until > k.t) IS TRUE)`
)
