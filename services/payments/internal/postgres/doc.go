// Package postgres stores payments and idempotency records in PostgreSQL, schema
// payments.
//
// A payment is settled in one READ COMMITTED transaction: claim, processor, payment,
// COMPLETED with the receipt, COMMIT. The claim is an INSERT ... ON CONFLICT DO
// UPDATE ... WHERE expired: a SELECT ... FOR UPDATE of a key that does not exist locks
// nothing in PostgreSQL. Of concurrent claims of one key one gets the row; the
// others wait for it and find it live.
//
// # Bounds
//
//	callers of one key, one replica   one transaction; the others wait in the process without a connection
//	payment transactions, one replica Options.Transactions: reads always find a connection
//	wait for a key                    Options.LockWait, in the process's queue and for the row lock together
package postgres
