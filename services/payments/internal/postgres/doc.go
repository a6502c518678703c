// Package postgres stores payments and idempotency records in PostgreSQL, schema payments.
//
// A payment is claimed by one statement and settled by another; concurrent payments of a replica share them
// (platform/groupcommit). In between a payment holds no connection and no lock.
//
//	request ──► claim ──► (processor) ──► settle
//	             │  ▲                       └──► give back, drop
//	             ▼  │ ended, or ran out
//	         lane of the key
//
// # States
//
// A key's row is absent, PROCESSING under a claim_id until claimed_until, or COMPLETED with a receipt until expires_at.
// The claim is an INSERT ... ON CONFLICT DO UPDATE of an expired record, or of a claim for the same content that ran
// out: in PostgreSQL a SELECT ... FOR UPDATE of a missing key locks nothing. Every later change of the row is fenced by
// claim_id, under the row's lock.
//
// The primary key is caller and key, with the key first. A caller without a live record gets the live record of the
// same key without a caller, or takes its claim over (claimSQL).
//
// # On failure
//
// No slot is needed, because each row tells who wrote it. After a lost answer the group is sent again: a claim
// recognises its claim_id, a settlement its payment_id, and the end of a claim finds that it has ended. A lost sending
// that arrives late finds the same, or a fence that does not hold, and changes nothing; at worst it leaves the claim of
// a request that has ended. If the database does not come back before the deadline, a claim returns that nothing was
// applied, because nothing was charged, and a settlement that the outcome is unknown. A claim that is left behind runs
// out; a repeat of the request, or Overdue, takes it over.
//
// # Bounds
//
//	payments in flight, one replica   Limits.Queue
//	wait for a key                    Options.LockWait, for requests of any replica and for row locks together
//	callers that wait for a key       one permit of Limits.Share each
package postgres
