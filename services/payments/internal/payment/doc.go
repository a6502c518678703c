// Package payment is the domain of the payments service: it charges a ride once,
// however often the request is sent. It imports only the standard library; adapters
// depend on it, never the other way round.
//
// # States of an idempotency key
//
//	(absent) ──claim──► PROCESSING ──settle──► COMPLETED ──TTL──► expired
//	    ▲                 │  ▲  │                                    │
//	    └──not charged────┘  └──┘ taken over   a claim takes it like an absent one
//
// PROCESSING is stored, with a claim that runs out. After that, the same request or
// [Service.Reconcile] takes the key over, under a new [ClaimID]; another request never does.
// A holder whose claim was taken over can change nothing.
//
// # Invariants
//
//   - A live key has at most one payment and one receipt. Every request with the
//     same key and the same content (apart from the security code) gets that receipt,
//     byte for byte. A key belongs to its caller; a key that was used without a caller
//     belongs to every caller.
//   - The same key with other content returns [ErrKeyConflict] and changes nothing.
//   - The processor charges once per [ProcessorKey]. That key is derived from the
//     idempotency key, its caller and the number of payments stored under it. So it
//     stays the same after a takeover, and changes after the key has expired.
//   - A success and a decline are definitive and stored. A fault or a timeout of
//     the processor is neither: no payment is stored, and the next request with the key
//     runs again.
//   - The card number and the security code are kept in memory during a request,
//     passed to the processor, and stored nowhere. No digest contains the code,
//     because it would tell right codes from wrong ones.
//
// # Where a key is checked
//
// httpapi/routes.go refuses a missing key, platform/idempotency a malformed one, and
// request.go one with a card number; postgres/claim.go finds out whether it was used.
//
// # On failure
//
// No transaction is open while the processor is called. Repeating the request with the
// same key settles the payment, because the processor answers with the charge that it
// made. Payments whose requests are not repeated are settled by a replica.
package payment
