// Package processor simulates the company that moves the money. It is outside the service, as a real one is: it writes
// its ledger, table payments.processor_charges, through a separate pool, and commits before the payment is stored. So
// after any crash the ledger shows how often a card was charged. Concurrent charges share one statement, which enters
// each key once. A charge continues when its caller stops waiting. A repeated key gets the existing entry if all values
// except the security code are the same; card and ride are compared only by keyed digests.
//
//	4242424242424242, and any card not listed here   succeeds
//	4000000000000002                                 declined: card_declined
//	4000000000009995                                 declined: insufficient_funds
//	4000000000000119                                 the processor fails; nothing is charged
//	4000000000000259                                 charges, then does not answer; a repeat succeeds
package processor
