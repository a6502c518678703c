// Package postgres stores lists in PostgreSQL, table iidy.lists.
//
// # The way of a change
//
// Requests for single items go through group commit (platform/groupcommit): concurrent requests of one kind share a
// statement (items.go). Batches, and the changes of claims, are a transaction each, as many at a time as leave
// connections to the groups and to reads (queue.go). A batch that is too long for memory is copied to a temporary table
// first (batch.go).
//
// Each change writes a slot, a row of iidy.slots, in the same commit, and the slot tells what became of the change when
// its answer was lost.
//
// # Invariants
//
//   - Every statement locks its rows in byte order, adds included, so that no two of them deadlock, whichever replica
//     they come from.
//   - A row that moves while its lock is waited for is changed all the same, and once.
//   - Leases are compared with the database's clock when all locks are held.
//   - A locked item delays the callers of that item. Other changes find a connection.
//
// # On failure
//
// A change that meets a locked item is rolled back, and tried again until LockTimeout is over (groupcommit.Retry). A
// deadlock or a lost request is repeated, three times at most. What the slot cannot tell before the deadline is
// answered as unknown.
//
// # On Citus
//
// The lists are distributed by their name, and a change is for one shard: a group is for the lists of one. The
// statements are those of one server, but for the adds (cluster.go).
package postgres
