// Package postgres keeps events in PostgreSQL, tables events.status and
// events.events, without a key, an index or a constraint on either.
//
// New events take their ids from the locked row of status, a group at a time
// (package allocate). A worker claims with FOR UPDATE SKIP LOCKED and finishes by
// DELETE and INSERT in one statement: an UPDATE would move the row to another
// partition, which fails (40001) for everybody who meets it on the way.
package postgres
