// Package processor simulates the company that moves the money. It stands
// outside the payment's transaction, as a real one does: its ledger, table
// payments.processor_charges, is written on a pool of its own and committed before
// the payment is. So it can be told after any crash how often a card was charged.
//
//	4242424242424242, and any card not named here   succeeds
//	4000000000000002                                declined: card_declined
//	4000000000009995                                declined: insufficient_funds
//	4000000000000119                                the processor fails; nothing is charged
//	4000000000000259                                charges, then does not answer; the repeat settles
package processor
