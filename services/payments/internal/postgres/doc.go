// Package postgres keeps payments and idempotency records in PostgreSQL, schema
// payments.
//
// A key is settled in one READ COMMITTED transaction: claim, processor, payment,
// COMPLETED with the answer, COMMIT. The claim is an INSERT ... ON CONFLICT DO
// UPDATE ... WHERE expired: a SELECT ... FOR UPDATE of a key that is not there locks
// nothing in PostgreSQL. Of concurrent claims of one key one gets the row; the
// others wait for it and find it live.
//
// # Bulkheads
//
//	callers of one key, one replica   one goes on, the others wait in the process without a connection
//	payment transactions, one replica Options.Transactions at most: reads always find a connection
//	wait for a key                    Options.LockWait, whatever is waited for: the process's queue, then the row lock
package postgres
