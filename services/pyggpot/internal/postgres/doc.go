// Package postgres stores pots and coins in PostgreSQL, schema pyggpot.
//
// # A change
//
//	queue     callers of one pot wait in the process, without a connection, so that replicas contend for a pot, not
//	          clients
//	acquire   one statement, committed by itself: the lease, for Options.TTL
//	fence     SELECT ... FOR UPDATE of the pot, if it has this lease and the lease has not expired, and its coins
//	change    one statement: the kinds that changed, the pot's sum, and the release of the lease
//	COMMIT
//
// The fence is the change's first statement and its row lock is held to COMMIT: no other holder can take a lease that
// expires in between until the change is committed or rolled back. Every time is the database's clock_timestamp(),
// because now() does not advance while a transaction waits: a fence with it would accept a lease that has expired
// meanwhile.
//
// # On failure
//
// A change that fails releases its lease; the lease of a process that dies expires. The server ends a transaction that
// stalls after Options.TTL at the latest (idle_in_transaction_session_timeout); the fence refuses a holder that stalls
// before it.
//
// When the answer to COMMIT is lost, the lease shows what became of the change, since the same COMMIT releases it: see
// Store.resolve.
package postgres
