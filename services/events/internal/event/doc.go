// Package event is the domain of the events service: events with gapless ids, pending until a worker has given them a
// value. It imports only the standard library; adapters depend on it, never the other way round.
//
// # States
//
//	(absent) ──Create───────────────► processed
//	(absent) ──Enqueue──► pending ──Work──► processed
//
// Nothing leaves processed, and nothing is deleted.
//
// # Invariants
//
//   - Ids are 1, 2, 3, ... without a gap or a repeat, in the order in which their transactions commit: an id is taken
//     from the one row of status, which stays locked until the event is committed.
//   - The row of status holds the highest id, which is the number of events.
//   - A pending event gets exactly one value, once, whichever of many workers claims it.
//   - An id that a caller was given is found from then on.
//
// # On failure
//
// An acknowledged event is committed. When the database's answer gets lost, the slot of the group tells its ids (on
// PostgreSQL: platform/groupcommit). When a replica dies, an event that it had not acknowledged may exist or not; if
// not, the next event gets its id. Repeating a call whose outcome is unknown may add a second event. When a worker
// dies, its transaction is rolled back, and the events that it had claimed are pending again.
package event
