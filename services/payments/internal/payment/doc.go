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
// PROCESSING is stored, with a claim that runs out. The same request then takes the key
// over, under a new [ClaimID], and so does [Service.Reconcile]; another request never does.
// A holder whose claim was taken over changes nothing.
//
// # Invariants
//
//   - A live key has at most one payment and one receipt. Every request with the
//     same key and the same content, the security code apart, gets that receipt,
//     byte for byte. A key is its caller's; one that was used without a caller is
//     every caller's.
//   - The same key with other content is [ErrKeyConflict] and changes nothing.
//   - The processor charges once per [ProcessorKey]. That key follows from the
//     idempotency key, its caller and the number of payments stored under it, so it is the same
//     after a takeover and another one after the key has expired.
//   - A success and a decline are definitive and stored. A fault or a timeout of
//     the processor is neither: no payment is stored, and the next request with the key
//     runs again.
//   - The card number and the security code are held in memory while a request
//     lasts, given to the processor, and stored nowhere. No digest has the code: it
//     would tell right codes from wrong ones.
//
// # On failure
//
// No transaction is open while the processor is called. Repeating the request with the
// same key settles the payment, as the processor answers with the charge that it made; a
// replica settles what is not repeated.
package payment
