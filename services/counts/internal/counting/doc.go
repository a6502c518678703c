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
//   - Only Initialize creates a count, and Apply when it is asked to. Any other
//     change of an absent count returns [ErrNotFound] and creates nothing.
//   - Each change is atomic in the database: n concurrent increases by one
//     return n different consecutive values, through one replica or through many.
//   - A [Request] applies all of its changes, one after the other, or none.
//   - Of all requests with one [Key], the first is applied. The others get its
//     answer, even a refusal, and change nothing. A request with other content
//     gets [ErrKeyConflict].
//   - A value stays within int64. A change that would overflow returns
//     [ErrOverflow] and changes nothing.
//   - Every change, Reset and Set included, sets UpdatedAt to the database's
//     current time.
//
// # On failure
//
// An acknowledged change is committed. When a replica dies, changes that it had
// not acknowledged may or may not be applied; each is applied at most once. A
// change of unknown outcome is safe to repeat with its key; without a key it may
// be counted twice. An error of this package means that nothing was changed.
// groupcommit.Committer.Do and sqldb.Error document the repository's other errors.
package counting
