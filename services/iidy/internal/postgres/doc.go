// Package postgres keeps lists in PostgreSQL, table iidy.lists.
//
// Calls for single items go through group commit (platform/coalesce): concurrent
// ones share a statement, one lane for each kind of call. A batch is one statement
// of its own; one that is too long for memory goes into a temporary table first
// and is then applied by one statement in the same transaction.
//
// Every statement locks its rows in the order of their bytes, adds included, so
// that no two of them deadlock, whichever replica they come from.
package postgres
