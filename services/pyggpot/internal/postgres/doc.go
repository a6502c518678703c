// Package postgres keeps pots and coins in PostgreSQL, schema pyggpot.
//
// # A change
//
//	queue     callers of one pot wait in the process, without a connection, so that
//	          replicas contend for a pot, not clients
//	acquire   one statement, committed by itself: the lease, for Options.TTL
//	fence     SELECT ... FOR UPDATE of the pot, if the lease is ours and lives, and its coins
//	change    one statement: the kinds that changed, the pot's sum, and the lease given back
//	COMMIT
//
// The fence is the change's first statement and its row lock is held to COMMIT: a
// lease that expires in between can be taken by nobody until the change is there
// or gone. Every time is the database's clock_timestamp(), because now() stands
// still while a transaction waits: a fence with it would accept a lease that
// expired meanwhile.
//
// # On failure
//
// A change that fails gives its lease back; one that dies leaves it to expire. A
// holder that stalls inside the transaction is ended by the server after
// Options.TTL at the latest (idle_in_transaction_session_timeout), one that stalls
// before it meets the fence.
//
// When the answer to COMMIT is lost, the lease tells what became of the change,
// since it is given back by the same COMMIT: see Store.settle.
package postgres
