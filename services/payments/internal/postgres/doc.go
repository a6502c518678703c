// Package postgres stores payments and idempotency records in PostgreSQL, schema payments.
//
// A payment is claimed and settled by one statement each, which all concurrent payments of the replica share
// (platform/groupcommit). In between it holds no connection and no lock.
//
//	request ──► claim ──► (processor) ──► settle
//	             │  ▲                       └──► give back, drop
//	             ▼  │ ended, or ran out
//	         lane of the key
//
// # States
//
// A key's row is absent, PROCESSING under a claim_id until claimed_until, or COMPLETED with a receipt until expires_at.
// The claim is an INSERT ... ON CONFLICT DO UPDATE of a record that expired or a claim of the same content that ran
// out: a SELECT ... FOR UPDATE of a key that does not exist locks nothing in PostgreSQL. Every later change of the row
// is fenced by claim_id, under the row's lock.
//
// The primary key is caller and key, with the key first. A caller that has no live record is answered by the live
// record of the same key without a caller, or takes its claim over (claimSQL).
//
// # On failure
//
// No slot is needed: each row tells whose it is. After a lost answer the group is sent again. A claim recognises its
// claim_id, a settlement its payment_id, and the end of a claim finds that it is over. A sending that was lost and
// arrives late finds the same, or a fence that does not hold, and changes nothing; at worst it leaves a claim of a
// request that has ended. Where the database does not come back before the deadline, a claim says that nothing was
// applied, because nothing was charged, and a settlement that the outcome is unknown. A claim that is left behind runs
// out; the request's repeat, or Overdue, takes it over.
//
// # Bounds
//
//	payments in flight, one replica   Limits.Queue
//	wait for a key                    Options.LockWait, for another request of any replica and for a row's lock together
//	callers that wait for a key       a place of Limits.Share each
package postgres
