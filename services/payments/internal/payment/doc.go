// Package payment is the domain of the payments service: it charges a ride once,
// however often the request is sent. It imports only the standard library; adapters
// depend on it, never the other way round.
//
// # States of an idempotency key
//
//	(absent) ──claim──► PROCESSING ──settled──► COMPLETED ──TTL──► expired
//	    ▲                   │                                        │
//	    └──rolled back──────┘          a claim takes it like an absent one
//
// PROCESSING exists inside one database transaction only: no other transaction reads
// it. So a key is never stuck, whichever process dies in between.
//
// # Invariants
//
//   - A live key has at most one payment and one receipt. Every request with the
//     same key and the same content, the security code apart, gets that receipt,
//     byte for byte.
//   - The same key with other content is [ErrKeyConflict] and changes nothing.
//   - The processor charges once per [ProcessorKey]. That key follows from the
//     idempotency key and the number of payments stored under it, so it is the same
//     after a rollback and another one after the key has expired.
//   - A success and a decline are definitive and stored. A fault or a timeout of
//     the processor is neither: nothing is stored, and the next request with the key
//     runs again.
//   - The card number and the security code are held in memory while a request
//     lasts, given to the processor, and stored nowhere. No digest has the code: it
//     would tell right codes from wrong ones.
//
// # On failure
//
// The processor is called while the transaction is open, and its charge does not roll
// back with it. Repeating the request with the same key settles the payment; the
// processor answers with the charge that it made.
package payment
