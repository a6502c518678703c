// Package postgres stores payments and idempotency records in PostgreSQL, schema
// payments.
//
// A payment is claimed and settled by one autocommit statement each; in between it holds
// no connection and no lock. The claim is an INSERT ... ON CONFLICT DO UPDATE ... WHERE
// expired: a SELECT ... FOR UPDATE of a key that does not exist locks nothing in
// PostgreSQL. It returns what stands under the other keys of its group, without a lock.
// Each change of a claim is fenced by its claim_id. Where the record of a caller's key stands, places.go says.
//
//	request ──► queue of its key ──► claim ──► (processor) ──► settle
//	   │ queue not empty              │  ▲ take over, look again
//	   └──► look ──► the record ◄─────┴──┘                  └──► give back, drop
//
// Looks, claims, settlements and other changes are group commits of their own.
//
// # Bounds
//
//	callers of one key, one replica   one claims; the others wait in the process
//	payments in flight, one replica   Limits.Queue
//	wait for a key                    Options.LockWait, in the process and for another replica's claim together; as long
//	                                  again for a row that another session has locked
//	callers that wait for a claim     a place of Limits.Share each
package postgres
