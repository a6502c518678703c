// Package postgres stores pots and coins in PostgreSQL, schema pyggpot.
//
// # A change
//
//	queue     callers of one pot wait in the process, without a connection (queue.go)
//	group     the queues of up to 32 pots share the statements that follow (group.go, platform/coalesce)
//	acquire   one statement, committed by itself: the leases, for Options.TTL, and the pots' coins (lease.go)
//	apply     the changes of each pot's callers, in order of arrival, in memory (apply.go)
//	change    one statement, committed by itself: the fence locks the pots whose lease is still valid (fence.go), and
//	          their kinds and sums are written and their leases released
//
// A queue goes through this again and again until it has no callers. A pot that a group finds held by another session
// goes through it by itself, and waits at the pot's row for the end of the holder's statement; its coins are read in a
// statement of their own then (coins.go).
//
// The fence's row locks are held to COMMIT: no other holder can take a lease that expires in between until the change
// is committed or rolled back. Every time is the database's clock_timestamp(), because now() does not advance while a
// statement waits: a fence with it would accept a lease that has expired meanwhile.
//
// # On failure
//
// A group that fails releases its leases; the leases of a process that dies expire. The fence refuses a holder that
// stalls for longer; no transaction is open between two statements.
//
// When the answer to the change is lost, the lease of each pot shows what became of it, since the same COMMIT releases
// it, unless another server has taken over: see Store.resolve and history.
package postgres
