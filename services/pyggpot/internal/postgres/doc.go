// Package postgres stores pots and coins in PostgreSQL, schema pyggpot.
//
// # A change
//
//	group     callers of any pots wait in the process, without a connection (platform/groupcommit)
//	lease     one statement in its own commit: the leases of the pots, for Options.TTL, and their coins (lease.go)
//	decide    the changes of the group's callers, in order of arrival, in memory (pot.Decide)
//	change    one statement in its own commit (change.go): the fence locks the pots whose lease is still valid,
//	          whose rows are as the lease left them, and whose coins are those that were decided on (fence.go); kinds and
//	          sums are written, the leases are released, and the answers go into the group's slot
//
// A pot that another replica holds is left out, and its callers wait in its lane: a statement waits at the pot's row
// for the end of the holder's change, and then the pot is leased as above. If it is held still, the next try comes
// after Options.RetryWait, Options.Retries times.
//
// # Invariants
//
// The fence's row locks are held to COMMIT: no other holder can take a lease that expires in between until the change
// is committed or rolled back. Every time is the database's clock_timestamp(), because now() does not advance while a
// statement waits: a fence with it would accept a lease that has expired meanwhile.
//
// A change is never made from other coins than the pot has. The snapshot of the statement that leases a pot may be
// older than the lease, and another holder may have changed the pot in between: so the fence compares the coins. The
// fence itself may wait for a row, under a snapshot from before, while other groups of the replica lease and change the
// pot: so it also demands the version of the row that the lease has written.
//
// # On failure
//
// The slot proves the outcome of a change, or of a new pot, whose answer was lost. A group that fails releases its
// leases. One that cannot be released is taken again by the next group of its replica; for other replicas, as when a
// process dies, it expires. The fence refuses a holder that stalls for longer. No transaction is open between two
// statements.
package postgres
