// Package pot is the domain of the pyggpot service: pots of coins that many
// replicas change, one change of a pot at a time. It imports only the standard
// library; adapters depend on it, never the other way round.
//
// # States of a pot
//
//	free ──lease taken──► leased ──changed and given back, or only given back──► free
//	                        │
//	                        └──TTL over──► free for whoever asks next
//
// # Invariants
//
//   - 0 <= coins in the pot <= MaxCoins, and no kind is below 0.
//   - A change is made by whoever holds the pot's lease, whole or not at all. One
//     whose lease has expired changes nothing, however late it comes.
//   - What is answered is what was put in or taken out: the coins in a pot are the
//     sum of all that was added less the sum of all that was removed.
//   - To look waits for nobody and sees a pot between two changes.
//   - Coins taken at random are each equally likely: see [Contents.Random].
//
// # On failure
//
// A holder that dies leaves its lease behind, which expires; nothing of its
// change is there. A change whose confirmation was lost is looked up by the lease
// that it gives back; where even that cannot tell, the error says that the outcome
// is unknown, and nothing is repeated by itself.
package pot
