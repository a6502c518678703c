// Package postgres stores lists in PostgreSQL, table iidy.lists.
//
// Calls for single items go through group commit (platform/coalesce): concurrent
// calls share a statement, in one coalescer per kind of call. A batch is a statement of
// its own; one that is too long for memory is copied to a temporary table and
// applied by one statement in the same transaction.
//
// Every statement locks its rows in byte order, adds included, so that no two of
// them deadlock, whichever replica they come from.
package postgres
