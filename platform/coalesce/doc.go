// Package coalesce implements group commit in the process: it gathers the requests of
// concurrent callers, runs one statement for all of them, and returns to each caller
// its own result once that statement has committed.
//
// One commit per request costs a round trip and an fsync each, and a hot row then
// serialises at commit speed. Here the next group forms while the current one runs: no
// added wait when idle, and groups grow with the load. Where callers are few, the next
// group waits for those that were just answered, for a millisecond at most, since clients
// that send one request after the other come back at once. The idea is the group commit of
// database logs (DeWitt et al., "Implementation Techniques for Main Memory Database
// Systems", SIGMOD 1984), moved to the client's side of the wire.
//
// # Promises
//
//   - A caller is answered only after the statement that carried its request
//     returned: an acknowledged request is committed.
//   - A request is handed to [Config.Run] again only after Run said that nothing
//     of it was applied ([ErrLockWait], [ErrSplit], or [Answer.Locked]).
//   - A row locked by another transaction delays only its own callers: see Lanes.
//   - The request of a caller whose context ends before it was sent is withdrawn
//     ([ErrLeft], surely not applied). Later it cannot be, and the caller gets
//     [ErrUnknown].
//   - Everything is bounded: group size in items and bytes, queue, groups in
//     flight, time.
//
// # Lanes
//
//	Do ──► main queue ──► group ──► Run(wait briefly) ──► answers
//	          ▲                        │ a lock wait timed out
//	          │                        ▼
//	     key is not locked        Run(skip locked) ──► answers for the free rows
//	                                   │ requests of locked rows
//	     key is locked                 ▼
//	Do ─────────────────────────► slow lane ──► Run, key by key, with growing waits
//	   └─► probe ──► Run(skip locked) ──► an answer, or the slow lane
//
// Replicas collide on a hot row for milliseconds all the time, so a group first
// waits for its locks briefly ([Config.BriefWait]). Only when that wait times out does
// it change the rows that are free, and the keys of the locked rows become slow: their
// callers, those that arrive meanwhile included, queue in a lane of their own until
// the row is free or [Config.LockTimeout] has passed ([ErrLocked], surely not applied).
// A request in the slow lane holds a place of [Limits.Share], which bounds the callers of
// locked keys; one that gets none is refused at once ([contention.ErrCrowded]). A row that
// another session is inserting cannot be skipped: groups that insert use [Halve].
//
// A key stays known as locked for LockTimeout after its last caller, unless a run finds its
// row free: the next crowd would fill the main lane anew. While no statement of the slow lane
// waits for the row, one caller of the key at a time is a probe, which skips locked rows, so
// never waits, and needs no place: a row that has come free is found by its next caller.
// Those that come until it is answered wait for that, without a place.
//
// # Several coalescers
//
// Callers that go from one coalescer to the next, without a pause, share larger groups where
// the coalescers share a [Gate].
//
// # Several rows
//
// A request may lock further rows ([Config.Others]). It stands in the lane of one key that is
// known as locked, which [Answer.At] named. No such request is run in a lane: a statement that
// locks no other row finds out when its key's row comes free ([Config.Await]), and then it goes
// back to the main lane. So it neither keeps its free rows locked while it waits, nor makes the
// callers of one row wait for another, and replicas whose batches collide do not queue up.
//
// # Shards
//
// Where a table is distributed over servers, a [Sharded] has a coalescer for each shard. A
// server that does not answer, and its locked rows, leave places to the others.
//
// # Traces
//
// With a [Config.TracerProvider] each run of a group is a span: a child of the
// first of its requests that is recorded, linked to all that are.
package coalesce
