// Package processor simulates the company that moves the money. It stands outside the service, as a real one does: its
// ledger, table payments.processor_charges, is written through a pool of its own and committed before the payment is.
// So the ledger shows after any crash how often a card was charged. Concurrent charges share one statement, which
// enters each key once. A charge goes on when its caller has stopped waiting. A repeated key gets the entry that is
// there when all values but the security code are the same, card and ride by keyed digests alone.
//
//	4242424242424242, and any card not listed here   succeeds
//	4000000000000002                                 declined: card_declined
//	4000000000009995                                 declined: insufficient_funds
//	4000000000000119                                 the processor fails; nothing is charged
//	4000000000000259                                 charges, then does not answer; a repeat succeeds
package processor
