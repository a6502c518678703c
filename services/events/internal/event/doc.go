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
//   - A pending event gets exactly one value, however many workers run.
//   - Once a caller has an id, every replica finds the event.
//
// # On failure
//
// An acknowledged event is committed. If the database's answer is lost, the slot of the group holds the ids (PostgreSQL
// only: platform/groupcommit). When a replica dies, an event that it had not acknowledged may or may not exist; if not,
// the next event gets its id. Repeating a call of unknown outcome may add a second event. When a worker dies, its
// transaction is rolled back, and the events that it had claimed are pending again.
package event
