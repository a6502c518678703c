// Package postgres stores lists in PostgreSQL, table iidy.lists.
//
// Calls for single items go through group commit (platform/coalesce): concurrent
// calls share a statement, in one coalescer per kind of call. A batch is a statement of
// its own; one that is too long for memory is copied to a temporary table and
// applied by one statement in the same transaction.
//
// On Citus the lists are distributed by their name, and a group is for the lists of one
// shard. Every change is a transaction over one shard, so that it commits in one phase: in
// two, the coordinator would answer before it is so. The transaction writes a slot, a row of
// iidy.slots on the same shard, by which its outcome is looked up when the reply to its
// COMMIT was lost. Only a claim is a statement without one.
//
// Every statement locks its rows in byte order, adds included, so that no two of
// them deadlock, whichever replica they come from.
package postgres
