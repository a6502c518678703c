// Mutant of services/iidy/internal/postgres/claimed.go: now() for clock_timestamp().

package postgres

// leaseClock is the start of the transaction, not the time at which it gets its row.
const leaseClock = `now()`

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
