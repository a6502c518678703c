// Package counting is the domain of the counts service: named counters that
// many writers change at very high frequency. It imports only the standard
// library; adapters depend on it.
//
// # States
//
//	(absent) ──Initialize──► present ──Delete──► (absent)
//	                          │    ▲
//	                          └────┘ Increase, Decrease, Reset, Set, Apply
//
// # Invariants
//
//   - Only Initialize creates a count, and Apply where it is asked to; any other
//     change of an absent one is [ErrNotFound] and creates nothing.
//   - Each change is atomic in the database: n concurrent increases by one
//     return n different consecutive values, through one replica or through many.
//   - The changes of an [Update] are applied all or none, one after the other.
//   - Of all requests with one [Key], the first is applied. The others get its
//     answer, a refusal too, and change nothing; with other content they are
//     [ErrKeyConflict].
//   - A value stays within int64. A change that would leave it is [ErrOverflow]
//     and changes nothing.
//   - Every change, Reset and Set included, moves UpdatedAt to the database's
//     clock at that moment.
//
// # On failure
//
// An acknowledged change is committed. When a replica dies, changes that it had
// not acknowledged may or may not be applied; each is applied at most once. A
// change of unknown outcome may be repeated with its key; without one a repeat may
// count it twice. An error of this package means that nothing was changed; what an error of
// the repository means is for its package to say.
package counting
