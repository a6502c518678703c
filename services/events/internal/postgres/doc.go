// Package postgres stores events in PostgreSQL: tables events.status and events.events, without keys, indexes or
// constraints.
//
// New events take their ids from the locked row of status, a group at a time. The group's slot in events_meta.slots,
// which has a key, proves the outcome (add.go). A worker claims with FOR UPDATE SKIP LOCKED and finishes by DELETE and
// INSERT in one statement: an UPDATE would move the row to another partition, and every transaction that meets the row
// meanwhile would fail (40001).
package postgres
