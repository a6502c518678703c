// Package pot is the domain of the pyggpot service: pots of coins that many replicas change, one change of a pot at a
// time. It imports only the standard library; adapters depend on it, never the other way round.
//
// # States of a pot
//
//	free ──acquired──► leased ──changed and released, or released──► free
//	                      │
//	                      └──expired──► free for the next holder
//
// # Invariants
//
//   - 0 <= coins in the pot <= MaxCoins, and no kind is below 0.
//   - Only the holder of the pot's lease changes it, all or nothing. A holder whose lease has expired changes nothing,
//     however late it comes. Changes that share a lease are applied one after the other, each with its own answer: see
//     [Decide].
//   - A change returns exactly the coins that it added or removed: the coins in a pot are the sum of all added coins
//     minus the sum of all removed ones.
//   - Reads do not wait, and see a pot before or after a change.
//   - When coins are taken at random, each is equally likely: see [Contents.Random].
//
// # On failure
//
// If a holder dies, its lease expires, and nothing of its change is stored. A change stores its answer in the same
// commit. If the reply to COMMIT is lost, either that answer is found, or the change can never commit and is made
// again. If neither can be established in time, the error says that the outcome is unknown.
package pot
