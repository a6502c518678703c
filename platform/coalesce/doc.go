// Package coalesce is group commit in the process: it gathers what concurrent
// callers want, runs one statement for all of them, and hands each caller its
// own result once that statement has committed.
//
// One request, one commit costs a round trip and an fsync each, and a hot row
// then serialises at commit speed. Here the next group forms while the current
// one is on its way: no timer, no added wait when idle, and the busier it gets
// the larger the groups become. The idea is the group commit of database logs
// (DeWitt et al., "Implementation Techniques for Main Memory Database Systems",
// SIGMOD 1984), moved to the client's side of the wire.
//
// # Promises
//
//   - A caller is answered only after the statement that carried its request
//     returned: an acknowledged request is committed.
//   - A request is handed to [Config.Run] again only after Run said that nothing
//     of it was applied ([ErrLockWait], [ErrSplit], or [Answer.Locked]).
//   - A row that a stranger holds delays only its own callers: see Lanes.
//   - A caller whose context ends before its request was sent is taken out, and
//     told so ([ErrLeft], surely not applied). Later its work stands, and it is
//     told that too ([ErrUnknown]).
//   - Nothing is unbounded: group size in items and bytes, queue, groups in
//     flight, time.
//
// # Lanes
//
//	Do ──► main queue ──► group ──► Run(wait briefly) ──► answers
//	          ▲                        │ wait ran out
//	          │                        ▼
//	     key is not slow          Run(skip locked) ──► answers for what is free
//	                                   │ the locked rest
//	     key is slow                   ▼
//	Do ─────────────────────────► slow lane ──► Run, key by key, with growing waits
//
// Replicas collide on a hot row for milliseconds all the time, so a group first
// waits for its locks briefly ([Config.BriefWait]). Only when that runs out does
// it take the rows that are free, and the keys that are not become slow: their
// callers, and whoever asks for them meanwhile, queue in a lane of their own
// until the row is free or [Config.LockTimeout] has passed ([ErrLocked], surely
// not applied). A key leaves the slow lane as soon as nobody waits for it there.
//
// # Traces
//
// With a [Config.TracerProvider] each run of a group is a span: a child of the
// first of its requests that is recorded, linked to all that are.
package coalesce
