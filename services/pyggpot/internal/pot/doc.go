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
//   - Only the holder of the pot's lease changes it, whole or not at all. A holder whose lease has expired changes
//     nothing, however late it comes. Changes that share a lease follow one another, each with its own answer: see
//     [Decide].
//   - A change returns exactly what it added or removed: the coins in a pot are the sum of all that was added less the
//     sum of all that was removed.
//   - Reads do not wait, and see a pot between two changes.
//   - Coins taken at random are each equally likely: see [Contents.Random].
//
// # On failure
//
// The lease of a holder that dies expires, and nothing of its change is stored. A change whose COMMIT got no answer has
// stored its answer with itself: it is found, or the change can never be made and is made again. Where neither can be
// known in time, the error says that the outcome is unknown.
package pot
