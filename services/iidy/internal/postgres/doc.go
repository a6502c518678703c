// Package postgres stores lists in PostgreSQL, table iidy.lists.
//
// # The way of a change
//
// Requests for single items go through group commit (platform/groupcommit): concurrent requests of one kind share a
// statement (items.go). Each batch, and each change of a claim, is a transaction; their number is limited, so that
// groups and reads find a connection (queue.go). A batch that is too long for memory is first copied to a temporary
// table (batch.go).
//
// Each change writes a slot, a row of iidy.slots, in the same commit. If its answer is lost, the slot tells the
// outcome.
//
// # Invariants
//
//   - Every statement locks its rows in byte order, adds included, so that no two of them deadlock, on any replica.
//   - A row that moves while a statement waits for its lock is still changed, exactly once.
//   - Leases are compared with the database's clock when all locks are held.
//   - A locked item delays the callers of that item. Other changes find a connection.
//
// # On failure
//
// A change that meets a locked item is rolled back, and tried again until LockTimeout is over (groupcommit.Retry).
// After a deadlock or a lost request it is sent again, at most three times in all. If the slot does not tell the
// outcome before the deadline, the answer is that it is unknown.
//
// # On Citus
//
// The lists are distributed by their name, and a change, as well as a group, is for one shard. The statements are the
// same as on one server, except for adds (cluster.go).
package postgres
