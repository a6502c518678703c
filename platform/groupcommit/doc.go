// Package groupcommit makes changes: it gathers the requests of concurrent callers into groups, sends each group in one
// statement or one transaction, answers every caller after the commit, and finds out the outcome of a group whose
// answer was lost.
//
// One commit for each request costs a round trip and an fsync, and a hot row then changes at the speed of commits. Here
// the next group forms while the last one is under way: nothing waits when the database is idle, and groups grow with
// the load. The idea is the group commit of database logs (DeWitt et al., "Implementation Techniques for Main Memory
// Database Systems", SIGMOD 1984), moved to the client's side of the wire.
//
//	Do ──► queue ──► group ──► send, wait briefly for locks ──► COMMIT ──► answers
//	         ▲                   │                        │
//	         │                   │ a row stays locked     │ no answer
//	    the row is free          ▼                        ▼
//	         │                 send, skip locked rows   ask the slot ──► its answers,
//	         │                   │                        or it never commits: send again
//	       lane of the key ◄─────┘
//
// # Promises
//
//   - A caller is answered after COMMIT and never before: an acknowledged request is stored.
//   - A group is sent again only when it is certain that the last sending changed nothing and never will.
//   - A locked row delays only the callers of its key.
//   - A caller whose context ends before its request is sent is told that nothing was applied ([ErrLeft]). Afterwards
//     the request stands, and the caller is told that the outcome is unknown ([ErrUnknown]).
//   - Requests of one key are answered as if they had come one by one.
//   - Size of a group, length of the queue, groups under way, waits and retries are bounded.
//
// # Slots
//
// A slot is a row that belongs to one replica while it exists, and to one group at a time. The commit of a group also
// writes the group's answers and the number of its attempt into the slot, and changes nothing when the slot does not
// hold the attempt before. So after a lost answer the slot tells what happened: see [Slots]. A slot is the only proof
// of an outcome that there is. MySQL has none, and a lost COMMIT there stays unknown.
//
// # Locked rows
//
// Replicas collide on a hot row for milliseconds all the time, so a group waits for its locks briefly at first. When
// that runs out it takes the rows that are free, and the requests of the others go to the lane of their key, where they
// wait up to [Limits.LockTimeout] ([ErrLocked]). While a lane exists, those that come for its key stand in it too. A
// row that another session is inserting cannot be skipped: a group that meets one is halved, until the request at fault
// is alone. That session may be inserting thousands, so while a row of a place is locked ([Config.Place]), the requests
// for that place have separate groups.
//
// A change that is in no group, such as one of several rows, is tried again by [Retry]. It stands in the line of those
// that came just now, and after 250 ms in the line of the others, with pauses, so that the callers of a row that stays
// locked do not hold up one that has only collided with another replica.
//
// The callers in lanes and in lines hold permits of [Limits.Share], under the key that they wait for, so that one
// locked row cannot take all requests that a replica may have in flight.
//
// # Shards
//
// On a Citus cluster a group is for one shard, so that it goes to one server and commits there in one phase. Where
// [Beside] is given, a committer makes one for each shard, at the first request: they share the metrics, the bound of
// the queue, and the permits of each server ([Limits.Permits]), so that one which does not answer leaves connections to
// the others. A slot is on the shard of its group: [Attempt.Place] is its distribution column.
package groupcommit
